//! Walks over all reachable objects.
//!
//! Invariant: the program's procedure runs with the world running and collections held off, on
//! objects that were marked by the last collection; where one is under way that cannot be waited
//! for, on all that were not found dead before it, since its marks say nothing yet. The list is
//! made with the world stopped, in memory reserved before. Where the caller has stopped the world,
//! as who hears of a collection's events, the procedure runs then and there. Called from any
//! thread.

use core::ffi::c_void;
use core::sync::atomic::{Ordering::Acquire, fence};
use rust_alloc::vec::Vec;

use crate::collections::world_stopped;
use crate::core_api::{self as api, embedding};

type ObjectProcedure = unsafe extern "C" fn(*mut c_void, usize, *mut c_void);

/// All that `visit` gives to its argument, which allocates nothing: room is made before, and where
/// there was too little `visit` is called again.
pub fn listed<T>(visit: impl Fn(&mut dyn FnMut(T))) -> Vec<T> {
    let mut list = Vec::new();
    loop {
        let (mut count, room) = (0, list.capacity());
        visit(&mut |item| {
            if count < room {
                list.push(item);
            }
            count += 1;
        });
        if count <= room {
            return list;
        }
        list.clear();
        list.reserve(count + count / 8);
    }
}

/// Whether objects without a mark may be reachable: a collection is under way, and the caller is
/// not called by it. To be asked after marks were read.
pub fn takes_unmarked() -> bool {
    // What was read is read before.
    fence(Acquire);
    !world_stopped::is_for_collection() && !embedding::marks_are_whole()
}

/// Runs `f` with collections held off, and between two of them where that can be.
fn with_whole_marks<R>(f: impl FnOnce() -> R) -> R {
    embedding::finish_and_hold();
    let result = f();
    api::release_collections();
    result
}

/// The objects that are marked, or all; world stopped meanwhile.
fn objects(all: bool) -> Vec<(usize, usize)> {
    listed(|keep| {
        api::with_stopped_world(|| {
            api::for_each_object(&mut |start, bytes, _kind, marked| {
                if marked || all {
                    keep((start, bytes));
                }
            });
        });
    })
}

/// Calls the procedure for each object that the last collection found reachable; while one is under
/// way for each that may be.
#[unsafe(no_mangle)]
pub extern "C" fn GC_enumerate_reachable_objects_inner(
    procedure: ObjectProcedure,
    data: *mut c_void,
) {
    let visit = |start: usize, bytes| {
        // SAFETY: the program's procedure; no collection can take the object away meanwhile.
        unsafe { procedure(start as *mut c_void, bytes, data) };
    };
    if api::has_stopped_world() {
        // Asked before: the collector's own thread does not stand, and may clear marks meanwhile.
        let all = !world_stopped::is_for_collection() && !embedding::is_held_idle();
        api::for_each_object(|start, bytes, _kind, marked| {
            if marked || all {
                visit(start, bytes);
            }
        });
        return;
    }
    with_whole_marks(|| {
        let all = takes_unmarked();
        let mut found = objects(all);
        if !all && takes_unmarked() {
            // The marks were cleared meanwhile, and dead objects swept before.
            found = objects(true);
        }
        for (start, bytes) in found {
            visit(start, bytes);
        }
    });
}

//! Walks over all reachable objects.
//!
//! Invariant: the program's procedure runs with the world running and collections held off, on
//! objects that were marked by the last collection or allocated since; the list is made with the
//! world stopped, in memory reserved before. Where the caller has stopped the world, as who hears
//! of a collection's events, the procedure runs then and there. Called from any thread.

use core::ffi::c_void;
use rust_alloc::vec::Vec;

use crate::core_api as api;
use crate::lock;

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

/// Calls the procedure for each object that the last collection found reachable.
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
        api::for_each_object(|start, bytes, _kind, marked| {
            if marked {
                visit(start, bytes);
            }
        });
        return;
    }
    lock::with_alloc_lock(|| {
        let objects = listed(|keep| {
            api::with_stopped_world(|| {
                api::for_each_object(&mut |start, bytes, _kind, marked| {
                    if marked {
                        keep((start, bytes));
                    }
                });
            });
        });
        for &(start, bytes) in &objects {
            visit(start, bytes);
        }
    });
}

//! What a thread returned, kept alive until it is joined: between the two nothing that is scanned holds it.
//!
//! Each joinable thread made by `GC_pthread_create` has a record, an uncollectable object. Invariant: a record is in the table from before anyone
//! can know the thread's number until `GC_pthread_join` or `GC_pthread_detach`, and is freed exactly once: by whoever joins, or for a
//! detached thread when both the detaching and the end are over. The table is protected by the allocation lock, which survives forks.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use std::collections::BTreeMap;

use crate::core_api::{self as api, Kind};
use crate::lock;

pub type ThreadStart = extern "C" fn(*mut c_void) -> *mut c_void;

#[repr(C)]
struct Record {
    start: ThreadStart,
    argument: *mut c_void,
    result: *mut c_void,
    ended: bool,
    detached: bool,
}

struct Table(UnsafeCell<BTreeMap<libc::pthread_t, *mut Record>>);
// SAFETY: touched only in `with_table`, under the allocation lock.
unsafe impl Sync for Table {}
static TABLE: Table = Table(UnsafeCell::new(BTreeMap::new()));

fn with_table<R>(f: impl FnOnce(&mut BTreeMap<libc::pthread_t, *mut Record>) -> R) -> R {
    // SAFETY: the lock is recursive, but no `f` here calls back.
    lock::with_alloc_lock(|| f(unsafe { &mut *TABLE.0.get() }))
}

fn free(record: *mut Record) {
    // SAFETY: a record that left the table, whose thread has ended: nobody knows it but us. It is an object's start.
    let freed = unsafe { api::free(record.cast()) };
    debug_assert!(freed.is_ok());
}

/// Runs the program's function and keeps what it returns.
extern "C" fn begin(record: *mut c_void) -> *mut c_void {
    let record = record.cast::<Record>();
    // SAFETY: made by `create` for this thread, and not freed before it has ended.
    let (start, argument) = unsafe { ((*record).start, (*record).argument) };
    let result = start(argument);
    end(record, result);
    result
}

/// The record's thread ends with this result.
fn end(record: *mut Record, result: *mut c_void) {
    let is_last = lock::with_alloc_lock(|| {
        // SAFETY: not freed before its thread has ended, which is now; fields are changed under the lock.
        let record = unsafe { &mut *record };
        record.result = result;
        record.ended = true;
        record.detached
    });
    if is_last {
        free(record);
    }
}

/// As pthread_create(3), with a record.
///
/// # Safety
/// As pthread_create(3).
pub unsafe fn create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: ThreadStart,
    argument: *mut c_void,
) -> c_int {
    let mut state = libc::PTHREAD_CREATE_JOINABLE;
    if !attributes.is_null() {
        // SAFETY: attributes of the caller.
        unsafe { pthread_attr_getdetachstate(attributes, &mut state) };
    }
    if state == libc::PTHREAD_CREATE_DETACHED {
        // SAFETY: the caller's promise.
        return unsafe { api::pthread_create(thread, attributes, start, argument) };
    }
    let record = api::allocate(size_of::<Record>(), Kind::Uncollectable).cast::<Record>();
    if record.is_null() {
        return libc::EAGAIN;
    }
    // SAFETY: fresh memory for one.
    unsafe {
        record.write(Record { start, argument, result: null_mut(), ended: false, detached: false });
    }
    // The lock is held until the number is in the table, so that a thread that exits at once finds itself there.
    let error = with_table(|table| {
        // SAFETY: the caller's promise; `begin` takes what we hand it.
        let error = unsafe { api::pthread_create(thread, attributes, begin, record.cast()) };
        if error == 0 {
            // SAFETY: pthread_create has written it.
            table.insert(unsafe { *thread }, record);
        }
        error
    });
    if error != 0 {
        free(record);
    }
    error
}

unsafe extern "C" {
    fn pthread_attr_getdetachstate(
        attributes: *const libc::pthread_attr_t,
        state: *mut c_int,
    ) -> c_int;
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_pthread_join(thread: libc::pthread_t, result: *mut *mut c_void) -> c_int {
    // Out of the table first: once joined, the number may be another thread's.
    let record = with_table(|table| table.remove(&thread));
    // SAFETY: as pthread_join(3).
    let error = unsafe { libc::pthread_join(thread, result) };
    if let Some(record) = record {
        if error == 0 {
            free(record);
        } else {
            with_table(|table| table.insert(thread, record));
        }
    }
    error
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_pthread_detach(thread: libc::pthread_t) -> c_int {
    let (error, ended) = with_table(|table| {
        // SAFETY: as pthread_detach(3).
        let error = unsafe { libc::pthread_detach(thread) };
        let record = if error == 0 { table.remove(&thread) } else { None };
        let ended = record.filter(|&record| {
            // SAFETY: in the table until now, so not freed.
            let record = unsafe { &mut *record };
            record.detached = true;
            record.ended
        });
        (error, ended)
    });
    if let Some(record) = ended {
        free(record);
    }
    error
}

/// Before a thread ends by `GC_pthread_exit`.
pub extern "C" fn keep_exit_value(result: *mut c_void) {
    // SAFETY: no preconditions.
    let this_thread = unsafe { libc::pthread_self() };
    // A detached thread is no longer in the table; its record, 40 bytes, is then never freed.
    if let Some(record) = with_table(|table| table.get(&this_thread).copied()) {
        end(record, result);
    }
}

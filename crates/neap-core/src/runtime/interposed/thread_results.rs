//! `pthread_create` behind the one that front ends export, so that threads are mutators from their
//! first instruction, and what a thread returned or gave to `pthread_exit`, kept alive until it is
//! joined: between the two nothing that is scanned holds it.
//!
//! Each joinable thread has a record, an uncollectable object; the first thread has it from when it
//! ends. Invariant `[world.inv.thread-results]`: a record is in the table from before anybody else
//! can know the thread's number until the thread is joined or detached; it is freed once, by who
//! does the last of three things: `pthread_create` returns, the thread begins, it is joined or
//! detached. A number is another thread's as soon as libc has joined its thread: so the oldest
//! record of a number is taken out, and a thread's own is the newest. A thread that ends reaches
//! its record through the table alone. In the child of a fork the table has the record of the
//! forking thread at most. The table has a lock of its own, taken in critical sections, with no
//! other lock held or taken. Called by program threads, outside stops.
//!
//! # Safety
//! Records are objects of this file's, alive as long as they are in the table or one of the three
//! things has not happened. Exported functions ask what libc's of the same name ask.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use libc::{pthread_attr_t, pthread_t};

use crate::addr::Address;
use crate::alloc::free;
use crate::heap::HEAP;
use crate::heap::kind::Kind;
use crate::rank::Rank;
use crate::runtime::allocation;
use crate::runtime::interposed::kernel_stacks;
use crate::stats::live;
use crate::sync::{ForkLock, Lock};
use crate::sys::libc_function::LibcFunction;
use crate::sys::own_thread::{Start, real_pthread_create};
use crate::sys::{signal, thread, unwind};
use crate::world::{attach, blocked, current, host, registry};

/// `pthread_create` has returned to who called it.
const MADE: u32 = 1;
/// The thread has read what it is to run.
const BEGUN: u32 = 2;
/// It was joined or detached: nobody will ask for its result.
const RELEASED: u32 = 4;
/// It is in the table.
const LISTED: u32 = 8;

#[repr(C)]
struct Record {
    start: Start,
    /// A root until the thread can be scanned.
    argument: *mut c_void,
    result: *mut c_void,
    /// The next one in the same bucket, an older one.
    next: *mut Record,
    thread: pthread_t,
    /// What has happened: bits.
    state: u32,
}

/// Records by their threads' numbers. More: shorter searches where thousands of threads are not
/// joined yet.
const BUCKETS: usize = 256;

struct Table([*mut Record; BUCKETS]);
// SAFETY: records are reached under the table's lock.
unsafe impl Send for Table {}

static TABLE: Lock<Table> = Lock::new(Rank::Results, Table([null_mut(); BUCKETS]));

impl Table {
    fn bucket(&mut self, thread: pthread_t) -> &mut *mut Record {
        // Numbers are addresses of control blocks, whole pages apart and more.
        &mut self.0[(thread >> 12) as usize % BUCKETS]
    }

    /// Puts a record in, unless it is in or has been.
    ///
    /// # Safety
    /// The record is alive.
    unsafe fn list(&mut self, record: *mut Record, thread: impl FnOnce() -> pthread_t) {
        // SAFETY: the caller's promise.
        let record = unsafe { &mut *record };
        if record.state & (LISTED | RELEASED) == 0 {
            record.state |= LISTED;
            let thread = thread();
            record.thread = thread;
            let first = self.bucket(thread);
            record.next = *first;
            *first = record;
        }
    }

    /// The newest of a thread.
    fn newest(&mut self, thread: pthread_t) -> Option<&mut Record> {
        let mut next = *self.bucket(thread);
        loop {
            // SAFETY: null or a record of the table.
            let record = unsafe { next.as_mut() }?;
            if record.thread == thread {
                return Some(record);
            }
            next = record.next;
        }
    }

    /// Takes out the oldest of a thread; gives it if it is to be freed.
    fn release(&mut self, thread: pthread_t) -> Option<*mut Record> {
        let mut link: *mut *mut Record = self.bucket(thread);
        let mut oldest: Option<*mut *mut Record> = None;
        // SAFETY: links of the table, whose records are alive.
        unsafe {
            while let Some(record) = (*link).as_mut() {
                if record.thread == thread {
                    oldest = Some(link);
                }
                link = &mut record.next;
            }
            let link = oldest?;
            let record = *link;
            *link = (*record).next;
            (*record).state &= !LISTED;
            happened(record, RELEASED)
        }
    }
}

/// Notes what has happened; gives the record if that was the last, and it is to be freed. Under the
/// table's lock.
///
/// # Safety
/// The record is alive.
unsafe fn happened(record: *mut Record, what: u32) -> Option<*mut Record> {
    const ALL: u32 = MADE | BEGUN | RELEASED;
    // SAFETY: the caller's promise.
    let state = unsafe { &mut (*record).state };
    *state |= what;
    (*state & ALL == ALL).then_some(record)
}

/// Runs `f` where no stop can fall, nor a handler that forks. On a thread that is no mutator both
/// are signals: only a host stops it.
fn unstopped<R>(f: impl FnOnce() -> R) -> R {
    let mutator = current::get();
    let _critical = mutator.map(|mutator| mutator.critical());
    let _undisturbed = mutator.is_none().then(signal::undisturbed);
    f()
}

fn with_table<R>(f: impl FnOnce(&mut Table) -> R) -> R {
    unstopped(|| f(&mut TABLE.lock()))
}

fn free(record: *mut Record) {
    // No stop waits for who is no mutator, and it would mark half of what is freed. A host stops
    // such threads, also while they wait for this lock.
    let waits = current::get().is_none() && !registry::is_mine();
    let no_stop = (waits && host::get().is_some()).then(registry::lock);
    let freed = unstopped(|| {
        let _no_stop = no_stop.or_else(|| waits.then(registry::lock));
        free::free(&HEAP, Address(record as usize))
    });
    debug_assert!(freed.is_ok(), "world.inv.thread-results: a record is freed once");
}

/// Where a thread of the program begins is of no use in stacks of allocations. At start-up, where
/// there are such stacks.
pub fn leave_out_of_stacks() {
    unwind::leave_out(neap_thread_start as *const () as usize);
    unwind::leave_out(neap_detached_thread_start as *const () as usize);
}

/// The beginning of a joinable thread. By its name debuggers and profilers know it.
extern "C" fn neap_thread_start(record: *mut c_void) -> *mut c_void {
    let record = record.cast::<Record>();
    attach::at_beginning();
    // SAFETY: made by `pthread_create` for this thread, which has not begun yet.
    let (start, argument) = unsafe { ((*record).start, (*record).argument) };
    let unneeded = with_table(|table| {
        // SAFETY: as above; `pthread_self` has no preconditions.
        unsafe {
            table.list(record, || libc::pthread_self());
            (*record).argument = null_mut();
            happened(record, BEGUN)
        }
    });
    unneeded.inspect(|record| free(*record));
    let result = start(argument);
    keep(result);
    result
}

/// The calling thread ends with this result. One that is detached has no record, nor has one that
/// was not made here; the first thread gets one.
fn keep(result: *mut c_void) {
    // SAFETY: no preconditions.
    let own = unsafe { libc::pthread_self() };
    let has_record =
        with_table(|table| table.newest(own).map(|record| record.result = result).is_some());
    if has_record || !thread::is_main(thread::current()) || current::get().is_none() {
        return;
    }
    // Whether it was detached nobody has noted: then its result stays.
    if let Some(record) = new_record(neap_thread_start, null_mut(), MADE | BEGUN) {
        // SAFETY: fresh, and nobody else knows it.
        unsafe { (*record).result = result };
        // SAFETY: alive.
        with_table(|table| unsafe { table.list(record, || own) });
    }
}

/// A record of its own for a thread; none if there is no memory.
fn new_record(start: Start, argument: *mut c_void, state: u32) -> Option<*mut Record> {
    let memory = allocation::allocate_beside_cycles(size_of::<Record>(), Kind::Uncollectable);
    let record = memory.cast::<Record>();
    if record.is_null() {
        return None;
    }
    let new = Record { start, argument, result: null_mut(), next: null_mut(), thread: 0, state };
    // SAFETY: fresh memory for one, of the right alignment.
    unsafe { record.write(new) };
    Some(record)
}

/// The beginning of a thread that is detached from the start: its record is its own.
extern "C" fn neap_detached_thread_start(record: *mut c_void) -> *mut c_void {
    attach::at_beginning();
    let record = record.cast::<Record>();
    // SAFETY: made by `pthread_create` for this thread alone.
    let (start, argument) = unsafe { ((*record).start, (*record).argument) };
    free(record);
    start(argument)
}

unsafe extern "C" {
    fn pthread_attr_getdetachstate(attributes: *const pthread_attr_t, state: *mut c_int) -> c_int;
}

/// As pthread_create(3); the thread is attached before `start` runs and detached when it ends.
///
/// # Safety
/// As pthread_create(3).
pub unsafe fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    let mut state = libc::PTHREAD_CREATE_JOINABLE;
    if !attributes.is_null() {
        // SAFETY: attributes of the caller.
        unsafe { pthread_attr_getdetachstate(attributes, &mut state) };
        // SAFETY: as above.
        unsafe { kernel_stacks::keep_stack_of(attributes) };
    }
    let Some(record) = new_record(start, argument, 0) else { return libc::EAGAIN };
    live::want_page();
    let detached = state == libc::PTHREAD_CREATE_DETACHED;
    let begin = if detached { neap_detached_thread_start } else { neap_thread_start };
    // SAFETY: the caller's promise; either function takes what we hand it.
    let error = unsafe { real_pthread_create()(thread, attributes, begin, record.cast()) };
    if error != 0 {
        free(record);
    } else if !detached {
        // The thread may be over, joined and forgotten, but for us.
        // SAFETY: `pthread_create` wrote the number; the record is alive until we say that it
        // returned. The number is read where the thread has not listed itself: it has not run the
        // program's function then, which may give the place back where the number was written.
        let unneeded = with_table(|table| unsafe {
            table.list(record, || *thread);
            happened(record, MADE)
        });
        unneeded.inspect(|record| free(*record));
    }
    error
}

/// The thread was joined or detached.
fn release(thread: pthread_t) {
    let unneeded = with_table(|table| table.release(thread));
    unneeded.inspect(|record| free(*record));
}

macro_rules! real_functions {
    ($($name:ident($thread:ident: $number:ty $(, $argument:ident: $type:ty)*);)*) => {
        /// libc's own.
        mod real {
            use super::*;

            $(pub unsafe fn $name($thread: $number $(, $argument: $type)*) -> c_int {
                // SAFETY: it is called as the caller was.
                unsafe { found::$name.get()($thread $(, $argument)*) }
            })*

            #[allow(non_upper_case_globals)]
            mod found {
                use super::*;

                $(pub static $name: LibcFunction<
                    unsafe extern "C" fn($number $(, $type)*) -> c_int,
                > =
                    // SAFETY: libc's function of this name has this type.
                    unsafe { LibcFunction::named(concat!(stringify!($name), "\0")) };)*
            }

            pub fn find() {
                $(found::$name.find();)*
            }
        }

        $(
            #[doc = concat!("As libc's `", stringify!($name), "`.")]
            ///
            /// # Safety
            /// As libc's.
            pub unsafe fn $name($thread: $number $(, $argument: $type)*) -> c_int {
                let arguments = [$thread as usize $(, $argument as usize)*];
                // SAFETY: the caller's promise. Those that do not wait are in a region all the
                // same.
                let error = blocked::waiting(arguments, || unsafe {
                    real::$name($thread $(, $argument)*)
                });
                if error == 0 {
                    release($thread);
                }
                error
            }
        )*
    };
}
crate::each_release!(real_functions);

/// pthread_exit(3).
pub type PthreadExit = unsafe extern "C" fn(*mut c_void) -> !;

static PTHREAD_EXIT: LibcFunction<PthreadExit> =
    // SAFETY: libc's function of this name has this type.
    unsafe { LibcFunction::named("pthread_exit\0") };

/// Keeps what the calling thread is about to give to pthread_exit(3), and says where libc's is.
pub extern "C" fn keep_exit_value(result: *mut c_void) -> PthreadExit {
    keep(result);
    PTHREAD_EXIT.get()
}

/// Looks libc's functions up, when the library is loaded.
pub fn find() {
    PTHREAD_EXIT.find();
    real::find();
}

/// The lock, for who holds it over a `fork`.
pub fn lock_for_fork() -> &'static dyn ForkLock {
    &TABLE
}

/// In the child of a `fork`: the other threads are not there, and nobody will join them.
pub fn after_fork() {
    // SAFETY: no preconditions.
    let own = unsafe { libc::pthread_self() };
    for bucket in 0..BUCKETS {
        let other = |table: &mut Table| {
            let mut next = table.0[bucket];
            // SAFETY: null or a record of the table.
            while let Some(record) = unsafe { next.as_ref() } {
                if record.thread != own {
                    return Some(record.thread);
                }
                next = record.next;
            }
            None
        };
        while let Some(thread) = with_table(other) {
            release(thread);
        }
    }
}

/// Calls a macro with the functions of libc after which nobody asks for a thread's result.
#[doc(hidden)]
#[macro_export]
macro_rules! each_release {
    ($($then:tt)*) => { $($then)*! {
        pthread_join(thread: libc::pthread_t, result: *mut *mut c_void);
        pthread_tryjoin_np(thread: libc::pthread_t, result: *mut *mut c_void);
        pthread_timedjoin_np(
            thread: libc::pthread_t, result: *mut *mut c_void, until: *const libc::timespec
        );
        pthread_clockjoin_np(
            thread: libc::pthread_t, result: *mut *mut c_void, clock: libc::clockid_t,
            until: *const libc::timespec
        );
        pthread_detach(thread: libc::pthread_t);
    } };
}

#[doc(hidden)]
#[macro_export]
macro_rules! export_releases {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {$(
        #[doc = concat!("As libc's `", stringify!($name), "`.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $type),*) -> c_int {
            // SAFETY: the caller calls it as libc's.
            unsafe { $crate::api::thread_results::$name($($argument),*) }
        }
    )*};
}

/// Defines a function of this name that is pthread_exit(3), after the value was kept. It unwinds
/// the caller's frames, so there must be none of ours between: a jump, not a call.
#[macro_export]
macro_rules! exit_function {
    ($name:ident) => {
        /// As libc's `pthread_exit`.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub extern "C" fn $name() {
            core::arch::naked_asm!(
                "push rdi",
                "call {keep}",
                "pop rdi",
                "jmp rax",
                keep = sym $crate::api::thread_results::keep_exit_value,
            );
        }
    };
}

/// Defines libc's functions that end, join and detach threads. In a library that programs load
/// before libc, once.
#[macro_export]
macro_rules! thread_results {
    () => {
        use core::ffi::{c_int, c_void};

        $crate::each_release!($crate::export_releases);
        $crate::exit_function!(pthread_exit);
        $crate::c11_threads!();
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alloc::refill::refill;
    use crate::heap::{classes::class_of, spaces::SpaceId};
    use crate::world::registry::tests::mutator;

    fn record(state: u32) -> Box<Record> {
        extern "C" fn nothing(_: *mut c_void) -> *mut c_void {
            null_mut()
        }
        let (argument, result, next) = (null_mut(), null_mut(), null_mut());
        Box::new(Record { start: nothing, argument, result, next, thread: 0, state })
    }

    #[test]
    fn a_number_that_two_threads_had_is_released_in_their_order() {
        let mut table = Table([null_mut(); BUCKETS]);
        let (mut first, mut second, mut other) =
            (record(MADE | BEGUN), record(MADE | BEGUN), record(MADE));
        // SAFETY: boxes that outlive the table.
        unsafe {
            table.list(&mut *first, || 5 << 12);
            table.list(&mut *other, || (5 + BUCKETS as u64) << 12);
            table.list(&mut *second, || 5 << 12);
            table.list(&mut *second, || 5 << 12);
        }
        assert!(core::ptr::eq(table.newest(5 << 12).unwrap(), &*second));
        assert_eq!(table.release(5 << 12), Some(&raw mut *first));
        assert_eq!(table.release(5 << 12), Some(&raw mut *second));
        assert_eq!(table.release(5 << 12), None);
        assert_eq!(table.release((5 + BUCKETS as u64) << 12), None, "it has not begun");
        // SAFETY: a box.
        unsafe {
            table.list(&mut *other, || 5 << 12);
            assert!(table.newest(5 << 12).is_none(), "released, so not listed again");
            assert_eq!(happened(&mut *other, BEGUN), Some(&raw mut *other));
        }
    }

    /// Who stops the world holds the registry until it runs again.
    #[test]
    fn a_thread_that_is_no_mutator_frees_no_record_in_a_stop() {
        HEAP.reserve(64 << 20).unwrap();
        let id = SpaceId::of(Kind::Uncollectable, class_of(size_of::<Record>()));
        let local = &mutator().local;
        let buffer = local.buffer(id).unwrap();
        refill(&HEAP, local, buffer, id).unwrap();
        let record = buffer.bump(size_of::<Record>());
        let stopped = registry::lock();
        let freer = std::thread::spawn(move || free(record as *mut Record));
        std::thread::sleep(core::time::Duration::from_millis(50));
        assert!(HEAP.object_at(record).is_some());
        drop(stopped);
        assert!(freer.join().is_ok() && HEAP.object_at(record).is_none());
    }
}

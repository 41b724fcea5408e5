//! Threads of the library's own, and libc's `pthread_create` behind the one that a front end may
//! export.
//!
//! Assumes glibc ≥ 2.32. A thread made here has every signal blocked. Called from program threads,
//! outside stops and critical sections, and by the collector's thread.
//!
//! # Safety
//!
//! Calls of libc's about threads, with attributes that are made before and destroyed after, and of
//! its `pthread_create`, found by name and called by its own type.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering::*};

use super::libc_function::LibcFunction;
use super::process::instruments;
use super::{signal, thread};
use crate::addr::PAGE_BYTES;
use crate::sync::function::AtomicFunction;
use rustix::thread::{Pid, sched_getaffinity, sched_setaffinity};

/// What a thread runs.
pub type Start = extern "C" fn(*mut c_void) -> *mut c_void;
/// pthread_create(3).
pub type PthreadCreate = unsafe extern "C" fn(
    *mut libc::pthread_t,
    *const libc::pthread_attr_t,
    Start,
    *mut c_void,
) -> c_int;

/// Enough for a marker: its deep structures are outside the stack. More without optimization.
const STACK_BYTES: usize = if cfg!(debug_assertions) { 1 << 20 } else { 256 << 10 };

/// libc's function of this name, never our own.
pub fn real_pthread_create() -> PthreadCreate {
    PTHREAD_CREATE.get()
}

static PTHREAD_CREATE: LibcFunction<PthreadCreate> =
    // SAFETY: libc's function of this name has this type.
    unsafe { LibcFunction::named("pthread_create\0") };

/// Looks up what threads are made with. When the library is loaded.
pub fn find() {
    PTHREAD_CREATE.find();
}

/// Whether the program makes its threads with libc's function, whatever a front end exports: libc
/// comes first where the program links the front end's library by way of another.
pub fn is_made_by_libc() -> bool {
    // SAFETY: looks a symbol up, as the program does.
    let programs = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"pthread_create".as_ptr()) };
    programs as usize == real_pthread_create() as usize
}

unsafe extern "C" {
    /// glibc ≥ 2.32.
    fn pthread_attr_setsigmask_np(
        attributes: *mut libc::pthread_attr_t,
        mask: *const libc::sigset_t,
    ) -> c_int;
}

/// Starts a detached thread with all signals blocked. False if the system refuses.
///
/// Not in a critical section: libc waits for locks that a stopped thread may hold, those of malloc,
/// of the stacks that it keeps and of the loader's list of thread-local blocks. Invariant
/// `[world.inv.maker]`: so the maker's own signals stay as they are, and it can be stopped where it
/// waits; only the new thread has them blocked.
pub fn start(function: Start, argument: *mut c_void) -> bool {
    start_with(function, argument, Some(STACK_BYTES))
}

/// The same with a stack as the program's own threads have, for one that runs the program's code.
pub fn start_for_program(function: Start, argument: *mut c_void) -> bool {
    start_with(function, argument, None)
}

/// A thread of ours, and what it runs.
struct Own {
    function: AtomicFunction<Start>,
    argument: AtomicPtr<c_void>,
    /// Its id; [`BEGINS`] before it runs; 0: the place is free.
    thread: AtomicI32,
}

const BEGINS: i32 = -1;

/// Threads beyond these are not known for ours.
static OWN: [Own; 128] = [const {
    Own {
        function: AtomicFunction::none(),
        argument: AtomicPtr::new(core::ptr::null_mut()),
        thread: AtomicI32::new(0),
    }
}; 128];

extern "C" fn begin(own: *mut c_void) -> *mut c_void {
    // SAFETY: a place in the table, which stays.
    let own = unsafe { &*own.cast::<Own>() };
    own.thread.store(thread::current(), SeqCst);
    let result = match own.function.get() {
        Some(function) => function(own.argument.load(Relaxed)),
        None => core::ptr::null_mut(),
    };
    own.thread.store(0, SeqCst);
    result
}

/// Whether a thread with this id is one of ours.
pub fn is_own(id: i32) -> bool {
    OWN.iter().any(|own| own.thread.load(SeqCst) == id)
}

/// Whether there is any.
pub fn is_any() -> bool {
    !OWN.iter().all(|own| own.thread.load(SeqCst) == 0)
}

/// Whether there is one that has no id yet.
pub fn is_any_beginning() -> bool {
    is_own(BEGINS)
}

/// None can be made: libc might wait for ever.
static IS_FORBIDDEN: AtomicBool = AtomicBool::new(false);

/// Says whether [`start`] refuses from now on.
pub fn forbid(forbidden: bool) {
    IS_FORBIDDEN.store(forbidden, Relaxed);
}

/// In the child of a `fork`, which has none.
pub fn after_fork() {
    OWN.iter().for_each(|own| own.thread.store(0, Relaxed));
}

fn start_with(function: Start, argument: *mut c_void, stack_bytes: Option<usize>) -> bool {
    if IS_FORBIDDEN.load(Relaxed) {
        return false;
    }
    let is_free = |own: &&Own| own.thread.compare_exchange(0, BEGINS, SeqCst, Relaxed).is_ok();
    let Some(own) = OWN.iter().find(is_free) else {
        return create(function, argument, stack_bytes);
    };
    own.function.set(Some(function));
    own.argument.store(argument, Relaxed);
    let started = create(begin, core::ptr::from_ref(own).cast_mut().cast(), stack_bytes);
    if !started {
        own.thread.store(0, Relaxed);
    }
    started
}

fn create(function: Start, argument: *mut c_void, stack_bytes: Option<usize>) -> bool {
    // For a new thread libc takes memory of the program's malloc, and ThreadSanitizer's crashes on
    // one of ours, which it has not seen begin.
    if instruments::has_thread_sanitizer() && signal::are_all_blocked() {
        return false;
    }
    // SAFETY: the attribute object is initialized before and destroyed after its use, the set
    // filled.
    unsafe {
        let mut attributes: libc::pthread_attr_t = core::mem::zeroed();
        let mut all: libc::sigset_t = core::mem::zeroed();
        let mut thread = 0;
        libc::sigfillset(&mut all);
        libc::pthread_attr_init(&mut attributes);
        libc::pthread_attr_setdetachstate(&mut attributes, libc::PTHREAD_CREATE_DETACHED);
        if let Some(bytes) = stack_bytes {
            // The program's thread-local variables lie there too.
            let bytes = bytes + thread::static_storage_bytes().next_multiple_of(PAGE_BYTES);
            libc::pthread_attr_setstacksize(&mut attributes, bytes);
        }
        let started = pthread_attr_setsigmask_np(&mut attributes, &all) == 0
            && real_pthread_create()(&mut thread, &attributes, function, argument) == 0;
        libc::pthread_attr_destroy(&mut attributes);
        started
    }
}

/// A thread that sleeps until it is wanted, and is to wake on another processor than the one of who
/// wakes it. A scheduler that puts it there although another is idle lets it wait for some
/// milliseconds.
pub struct Sleeper {
    /// As the kernel numbers it; 0 before it ran.
    id: AtomicI32,
    /// The processor that it is kept off, and 1; 0 for none.
    kept_off: AtomicUsize,
}

impl Sleeper {
    /// For a thread that has not run yet.
    pub const fn new() -> Self {
        Self { id: AtomicI32::new(0), kept_off: AtomicUsize::new(0) }
    }

    /// The calling thread is the one.
    pub fn begin(&self) {
        self.id.store(thread::current(), Release);
    }

    /// Keeps it off the caller's processor, if it may use others. By one thread at a time, before
    /// it wakes it.
    pub fn keep_off_here(&self) {
        let Some(id) = Pid::from_raw(self.id.load(Acquire)).map(Some) else { return };
        if self.kept_off.load(Acquire) != 0 {
            return;
        }
        let Ok(mut others) = sched_getaffinity(id) else { return };
        let here = thread::processor();
        let has_others = others.is_set(here) && others.count() > 1;
        others.unset(here);
        if has_others && sched_setaffinity(id, &others).is_ok() {
            self.kept_off.store(here + 1, Release);
        }
    }

    /// The calling thread has woken up: it may use all its processors again.
    pub fn woken(&self) {
        if let Some(processor) = self.kept_off.load(Acquire).checked_sub(1)
            && let Ok(mut allowed) = sched_getaffinity(None)
        {
            allowed.set(processor);
            let _ = sched_setaffinity(None, &allowed);
            self.kept_off.store(0, Release);
        }
    }
}

/// Moves the calling thread to another processor if it is on `processor` and may use others, and
/// lets the scheduler move it on as before.
///
/// A thread that is woken may be put on the processor of who woke it although another is idle, and
/// then the two take turns of some milliseconds each until the scheduler looks again.
pub fn leave_processor(processor: usize) {
    if thread::processor() != processor {
        return;
    }
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let mut others = allowed;
    others.unset(processor);
    if others.count() > 0 && sched_setaffinity(None, &others).is_ok() {
        let _ = sched_setaffinity(None, &allowed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::signal;
    use super::*;
    use core::sync::atomic::AtomicU32;

    #[test]
    fn leaves_a_processor_and_may_come_back() {
        let allowed = sched_getaffinity(None).unwrap();
        let mut moved = false;
        // The scheduler may move it at any time.
        for _ in 0..100 {
            let processor = thread::processor();
            leave_processor(processor);
            moved |= thread::processor() != processor;
        }
        assert_eq!(moved, allowed.count() > 1);
        assert_eq!(sched_getaffinity(None).unwrap(), allowed);
    }

    #[test]
    #[cfg_attr(miri, ignore)]
    fn a_sleeper_is_kept_off_a_processor_until_it_wakes() {
        static SLEEPER: Sleeper = Sleeper::new();
        static AWAKE: AtomicU32 = AtomicU32::new(0);
        SLEEPER.keep_off_here();
        let own = sched_getaffinity(None).unwrap();
        let other = std::thread::spawn(|| {
            SLEEPER.begin();
            while AWAKE.load(Acquire) == 0 {
                super::super::futex::wait(&AWAKE, 0, None);
            }
            let kept_off = sched_getaffinity(None).unwrap();
            SLEEPER.woken();
            (kept_off, sched_getaffinity(None).unwrap())
        });
        while SLEEPER.id.load(Acquire) == 0 {
            core::hint::spin_loop();
        }
        // The second call may come from another processor.
        SLEEPER.keep_off_here();
        SLEEPER.keep_off_here();
        AWAKE.store(1, Release);
        super::super::futex::wake(&AWAKE, 1);
        let (kept_off, restored) = other.join().unwrap();
        assert_eq!(kept_off.count(), own.count().saturating_sub(1).max(1));
        assert_eq!(restored, own);
        assert_eq!(sched_getaffinity(None).unwrap(), own);
    }

    #[test]
    fn runs_with_signals_blocked() {
        static SEEN: AtomicU32 = AtomicU32::new(0);
        extern "C" fn look(_: *mut c_void) -> *mut c_void {
            // SAFETY: reads this thread's mask.
            let blocked = unsafe {
                let mut mask: libc::sigset_t = core::mem::zeroed();
                signal::raw_sigmask(libc::SIG_BLOCK, core::ptr::null(), &mut mask);
                libc::sigismember(&mask, libc::SIGTERM) == 1
            };
            SEEN.store(1 + blocked as u32, Release);
            super::super::futex::wake(&SEEN, 1);
            core::ptr::null_mut()
        }
        assert!(start(look, core::ptr::null_mut()));
        while SEEN.load(Acquire) == 0 {
            super::super::futex::wait(&SEEN, 0, Some(1_000_000_000));
        }
        assert_eq!(SEEN.load(Relaxed), 2);
    }
}

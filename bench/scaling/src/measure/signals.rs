//! What it costs to interrupt a thread that runs, and to wake one that sleeps: the call, and until
//! the other answers.
//!
//! Called by the measurement, on a process that does nothing else.
//!
//! # Safety
//!
//! A handler that only adds to a word, and system calls on words of ours.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use super::median;

/// What one call took, and after how long the other thread had answered.
pub struct Taken {
    pub call_ns: f64,
    pub answer_ns: f64,
}

const TURNS: usize = 2000;
const SIGNAL: libc::c_int = libc::SIGURG;

static ANSWERS: AtomicU32 = AtomicU32::new(0);
static ENDS: AtomicBool = AtomicBool::new(false);
static THREAD: AtomicU32 = AtomicU32::new(0);
static WORD: AtomicU32 = AtomicU32::new(0);

extern "C" fn answer(_: libc::c_int) {
    ANSWERS.fetch_add(1, SeqCst);
}

/// A signal to a thread that runs, and its handler.
pub fn signal() -> Taken {
    // SAFETY: a zeroed action with a handler that is a function of the right type.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = answer as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(SIGNAL, &action, std::ptr::null_mut());
    }
    // SAFETY: of the process's own thread, which runs until it is told to end.
    let call = || unsafe {
        libc::syscall(libc::SYS_tgkill, libc::getpid(), THREAD.load(SeqCst), SIGNAL);
    };
    beside(call, std::hint::spin_loop)
}

/// A thread that sleeps on a word.
pub fn wake() -> Taken {
    let sleep = || {
        let seen = WORD.load(SeqCst);
        // SAFETY: the word is ours and stays.
        unsafe {
            let null = std::ptr::null::<libc::timespec>();
            libc::syscall(
                libc::SYS_futex,
                &WORD,
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                seen,
                null,
            );
        }
        ANSWERS.fetch_add((WORD.load(SeqCst) != seen) as u32, SeqCst);
    };
    // SAFETY: as above.
    let call = || unsafe {
        WORD.fetch_add(1, SeqCst);
        libc::syscall(libc::SYS_futex, &WORD, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1);
    };
    beside(call, sleep)
}

/// Calls, beside a thread that does `other` over and over, and waits for its answer each time.
fn beside(call: impl Fn(), other: impl Fn() + Sync) -> Taken {
    ENDS.store(false, SeqCst);
    THREAD.store(0, SeqCst);
    let (mut calls, mut answers) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: asks for a number.
            THREAD.store(unsafe { libc::gettid() } as u32, SeqCst);
            while !ENDS.load(SeqCst) {
                other();
            }
        });
        while THREAD.load(SeqCst) == 0 {
            std::hint::spin_loop();
        }
        for _ in 0..TURNS {
            std::thread::sleep(Duration::from_micros(50));
            let (before, began) = (ANSWERS.load(SeqCst), Instant::now());
            call();
            calls.push(began.elapsed().as_nanos() as f64);
            while ANSWERS.load(SeqCst) == before {
                std::hint::spin_loop();
            }
            answers.push(began.elapsed().as_nanos() as f64);
        }
        ENDS.store(true, SeqCst);
        call();
    });
    Taken { call_ns: median(calls), answer_ns: median(answers) }
}

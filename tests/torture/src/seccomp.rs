//! Seccomp filters that have the kernel refuse one system call, for the rest of the process and for
//! what it becomes by `exec`.
//!
//! Invariant: all else is allowed. Called on the main thread; applies to every thread.

use crate::ensure;

/// What is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// New mappings.
    Mmap,
    /// Changes of protection that make memory writable.
    Mprotect,
    /// Giving memory back.
    Madvise,
    /// The kernel's write watch.
    Userfaultfd,
    /// New processes that do not share their maker's memory; threads are none.
    Fork,
}

/// Byte offset of the system call's first argument in what the filter sees; the number is at 0.
const FIRST_ARGUMENT: u32 = 16;

const fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// Goes on `jt` instructions further if the value is `k`, or has a bit of it (`BPF_JSET`), else
/// `jf`.
const fn jump(kind: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code: (libc::BPF_JMP | kind | libc::BPF_K) as u16, jt, jf, k }
}

const fn load(offset: u32) -> libc::sock_filter {
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset)
}

/// From now on the call fails with `error`.
pub fn refuse(call: Call, error: i32) {
    let refuse = statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | error as u32);
    let allow = statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW);
    let one = |number: libc::c_long| {
        vec![load(0), jump(libc::BPF_JEQ, number as u32, 0, 1), refuse, allow]
    };
    let mut filter = match call {
        Call::Mmap => one(libc::SYS_mmap),
        Call::Mprotect => one(libc::SYS_mprotect),
        Call::Madvise => one(libc::SYS_madvise),
        Call::Userfaultfd => one(libc::SYS_userfaultfd),
        Call::Fork => vec![
            load(0),
            jump(libc::BPF_JEQ, libc::SYS_fork as u32, 5, 0),
            jump(libc::BPF_JEQ, libc::SYS_vfork as u32, 4, 0),
            jump(libc::BPF_JEQ, libc::SYS_clone as u32, 0, 2),
            load(FIRST_ARGUMENT),
            jump(libc::BPF_JSET, libc::CLONE_VM as u32, 0, 1),
            allow,
            refuse,
        ],
    };
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program is valid and copied by the kernel.
    unsafe {
        ensure!(
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0,
            "the kernel does not let us give up privileges"
        );
        ensure!(
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                libc::SECCOMP_FILTER_FLAG_TSYNC,
                &raw const program
            ) == 0,
            "the kernel refuses a seccomp filter: {}",
            std::io::Error::last_os_error()
        );
    }
}

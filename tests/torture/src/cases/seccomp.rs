//! A seccomp filter that has the kernel refuse one system call with ENOMEM, for the rest of the process.
//!
//! Invariant: all else is allowed. Called by cases on the main thread; applies to every thread.

use crate::ensure;

/// What is refused.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    /// New mappings.
    Mmap,
    /// Changes of protection that make memory writable.
    Mprotect,
    /// Giving memory back.
    Madvise,
}

const fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

const fn equal(k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, jt, jf, k }
}

/// From now on the call is refused.
pub fn refuse(call: Call) {
    let number = match call {
        Call::Mmap => libc::SYS_mmap,
        Call::Mprotect => libc::SYS_mprotect,
        Call::Madvise => libc::SYS_madvise,
    };
    // The number of the system call is the first word of what the filter sees.
    let mut filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        equal(number as u32, 0, 1),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::ENOMEM as u32),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
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

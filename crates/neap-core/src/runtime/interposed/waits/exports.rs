//! The list of the functions that wait, and the macros by which a front end defines them.
//!
//! Invariant: a function stands in the list once, and the core's function and libc's have the same
//! type. Used when the core and the front ends are compiled.

/// Calls a macro with the functions of libc that are stood before, but for those that have no
/// errno.
#[doc(hidden)]
#[macro_export]
macro_rules! each_wait {
    ($($then:tt)*) => { $($then)*! {
        nanosleep(wanted: *const timespec, left: *mut timespec) -> c_int;
        clock_nanosleep(
            clock: clockid_t, flags: c_int, wanted: *const timespec, left: *mut timespec
        ) -> c_int;
        poll(files: *mut pollfd, count: nfds_t, milliseconds: c_int) -> c_int;
        __poll_chk(files: *mut pollfd, count: nfds_t, milliseconds: c_int, room: usize) -> c_int;
        ppoll(
            files: *mut pollfd, count: nfds_t, limit: *const timespec, mask: *const sigset_t
        ) -> c_int;
        __ppoll_chk(
            files: *mut pollfd, count: nfds_t, limit: *const timespec, mask: *const sigset_t,
            room: usize
        ) -> c_int;
        select(
            count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
            limit: *mut timeval
        ) -> c_int;
        pselect(
            count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
            limit: *const timespec, mask: *const sigset_t
        ) -> c_int;
        epoll_wait(
            epoll: c_int, events: *mut epoll_event, most: c_int, milliseconds: c_int
        ) -> c_int;
        epoll_pwait(
            epoll: c_int, events: *mut epoll_event, most: c_int, milliseconds: c_int,
            mask: *const sigset_t
        ) -> c_int;
        epoll_pwait2(
            epoll: c_int, events: *mut epoll_event, most: c_int, limit: *const timespec,
            mask: *const sigset_t
        ) -> c_int;
        pause() -> c_int;
        sigsuspend(mask: *const sigset_t) -> c_int;
        sigwaitinfo(set: *const sigset_t, info: *mut siginfo_t) -> c_int;
        sigtimedwait(set: *const sigset_t, info: *mut siginfo_t, limit: *const timespec) -> c_int;
        sem_timedwait(semaphore: *mut sem_t, until: *const timespec) -> c_int;
        sem_clockwait(semaphore: *mut sem_t, clock: clockid_t, until: *const timespec) -> c_int;
        pthread_cond_wait(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int;
        pthread_cond_timedwait(
            condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, until: *const timespec
        ) -> c_int;
        pthread_cond_clockwait(
            condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, clock: clockid_t,
            until: *const timespec
        ) -> c_int;
        cnd_wait(condition: *mut c_void, mutex: *mut c_void) -> c_int;
        cnd_timedwait(
            condition: *mut c_void, mutex: *mut c_void, until: *const timespec
        ) -> c_int;
        semop(set: c_int, operations: *mut sembuf, count: usize) -> c_int;
        semtimedop(
            set: c_int, operations: *mut sembuf, count: usize, limit: *const timespec
        ) -> c_int;
        msgsnd(queue: c_int, message: *const c_void, bytes: usize, flags: c_int) -> c_int;
        msgrcv(
            queue: c_int, message: *mut c_void, bytes: usize, kind: isize, flags: c_int
        ) -> isize;
        aio_suspend(requests: *const *const aiocb, count: c_int, limit: *const timespec) -> c_int;
        aio_suspend64(requests: *const *const aiocb, count: c_int, limit: *const timespec) -> c_int;
        gai_suspend(
            requests: *const *const c_void, count: c_int, limit: *const timespec
        ) -> c_int;
        accept(socket: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int;
        accept4(
            socket: c_int, address: *mut sockaddr, length: *mut socklen_t, flags: c_int
        ) -> c_int;
        connect(socket: c_int, address: *const sockaddr, length: socklen_t) -> c_int;
        send(socket: c_int, buffer: *const c_void, bytes: usize, flags: c_int) -> isize;
        sendto(
            socket: c_int, buffer: *const c_void, bytes: usize, flags: c_int,
            address: *const sockaddr, length: socklen_t
        ) -> isize;
        sendmsg(socket: c_int, message: *const msghdr, flags: c_int) -> isize;
        sendmmsg(socket: c_int, messages: *mut mmsghdr, count: u32, flags: c_int) -> c_int;
        write(file: c_int, buffer: *const c_void, bytes: usize) -> isize;
        writev(file: c_int, vectors: *const iovec, count: c_int) -> isize;
    } };
}

#[doc(hidden)]
#[macro_export]
macro_rules! export_waits {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        #[doc = concat!("As libc's `", stringify!($name), "`.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $type),*) -> $result {
            $crate::api::waits::waiting([$($argument as usize),*], || {
                // SAFETY: the caller calls it as libc's.
                unsafe { $crate::api::waits::$name($($argument),*) }
            })
        }
    )*};
}

/// Defines libc's functions that wait (see the module `runtime::interposed::waits` of the core). In
/// a library that programs load before libc, once.
#[macro_export]
macro_rules! waits {
    () => {
        use core::ffi::{c_int, c_void};
        use libc::{
            aiocb, clockid_t, epoll_event, fd_set, iovec, mmsghdr, msghdr, nfds_t, pollfd,
            pthread_cond_t, pthread_mutex_t, sem_t, sembuf, siginfo_t, sigset_t, sockaddr,
            socklen_t, timespec, timeval,
        };

        $crate::each_wait!($crate::export_waits);

        /// As libc's `sleep`.
        #[unsafe(no_mangle)]
        pub extern "C" fn sleep(seconds: u32) -> u32 {
            $crate::api::waits::waiting([], || $crate::api::waits::sleep(seconds))
        }

        /// As libc's `usleep`.
        #[unsafe(no_mangle)]
        pub extern "C" fn usleep(microseconds: u32) -> c_int {
            $crate::api::waits::waiting([], || $crate::api::waits::usleep(microseconds))
        }

        /// As libc's `sigpause`, which is the BSD form.
        #[unsafe(no_mangle)]
        pub extern "C" fn sigpause(mask: c_int) -> c_int {
            $crate::api::waits::waiting([], || $crate::api::waits::sigpause(mask))
        }

        /// As libc's `__sigpause`.
        #[unsafe(no_mangle)]
        pub extern "C" fn __sigpause(signal_or_mask: c_int, is_signal: c_int) -> c_int {
            $crate::api::waits::waiting([], || {
                $crate::api::waits::__sigpause(signal_or_mask, is_signal)
            })
        }

        /// As libc's `__xpg_sigpause`.
        #[unsafe(no_mangle)]
        pub extern "C" fn __xpg_sigpause(signal: c_int) -> c_int {
            $crate::api::waits::waiting([], || $crate::api::waits::__xpg_sigpause(signal))
        }

        /// As libc's `thrd_sleep`.
        #[unsafe(no_mangle)]
        pub extern "C" fn thrd_sleep(wanted: *const timespec, left: *mut timespec) -> c_int {
            $crate::api::waits::waiting([wanted as usize, left as usize], || {
                // SAFETY: the caller calls it as libc's.
                unsafe { $crate::api::waits::thrd_sleep(wanted, left) }
            })
        }

        /// As libc's `syscall`, whatever the call; only futex(2), and what forks as fork(2) does,
        /// go through functions of ours. A call may return twice, and on another stack: this
        /// touches the stack no more than libc's.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub extern "C" fn syscall(number: core::ffi::c_long) -> core::ffi::c_long {
            core::arch::naked_asm!(
                "cmp rdi, {number}",
                "je {futex}",
                "cmp rdi, {fork}",
                "je {forks}",
                "cmp rdi, {clone}",
                "jne 3f",
                "test esi, {shares}",
                "jnz 3f",
                "test rdx, rdx",
                "jz {forks}",
                "3:",
                "mov rax, rdi",
                "mov rdi, rsi",
                "mov rsi, rdx",
                "mov rdx, rcx",
                "mov r10, r8",
                "mov r8, r9",
                "mov r9, [rsp + 8]",
                "syscall",
                "cmp rax, -4095",
                "jae 2f",
                "ret",
                "2:",
                "mov rdi, rax",
                "jmp {refused}",
                number = const libc::SYS_futex,
                futex = sym $crate::api::waits::futex,
                fork = const libc::SYS_fork,
                clone = const libc::SYS_clone,
                shares = const $crate::api::untold_forks::SHARES,
                forks = sym $crate::api::untold_forks::by_syscall,
                refused = sym $crate::api::waits::refused,
            );
        }

        /// As libc's `sem_wait`.
        #[unsafe(no_mangle)]
        pub extern "C" fn sem_wait(semaphore: *mut sem_t) -> c_int {
            // SAFETY: the caller calls it as libc's.
            unsafe { $crate::api::waits::sem_wait(semaphore) }
        }
    };
}

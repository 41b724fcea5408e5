//! Sockets that have a time limit of their own (`SO_RCVTIMEO`, `SO_SNDTIMEO`): the kernel never
//! restarts what it ends on them.
//!
//! Invariant: the limit, which the socket shares with other threads and processes, stays as it is.
//! What a stop ended waits for the socket until the limit is over, counted from the beginning of
//! the call, and is then called again. Where another thread is faster then, or there is room for a
//! part only, it waits as long again, until the next stop. Called by program threads.
//!
//! # Safety
//! Each asks what libc's function of its name asks.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::ptr::null;
use core::time::Duration;

use libc::{iovec, mmsghdr, msghdr, pollfd, sockaddr, socklen_t, timespec, timeval};

use super::super::process_memory;
use super::{Failed, files, real, set_error, tried};

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// For data or a connection to come.
    In,
    /// For room to send.
    Out,
    /// For a connection that it makes.
    Connect,
}

impl Direction {
    fn option(self) -> c_int {
        match self {
            Self::In => libc::SO_RCVTIMEO,
            Self::Out | Self::Connect => libc::SO_SNDTIMEO,
        }
    }

    fn events(self) -> i16 {
        match self {
            Self::In => libc::POLLIN,
            Self::Out | Self::Connect => libc::POLLOUT,
        }
    }

    /// What the kernel says when the time is over.
    fn error(self, socket: c_int) -> c_int {
        let inet = [libc::AF_INET, libc::AF_INET6];
        match self {
            Self::Connect
                if option::<c_int>(socket, libc::SO_DOMAIN)
                    .is_some_and(|family| inet.contains(&family)) =>
            {
                libc::EINPROGRESS
            }
            _ => libc::EAGAIN,
        }
    }
}

/// An option of a socket; `None` for what is none.
fn option<T: Default>(socket: c_int, name: c_int) -> Option<T> {
    let mut value = T::default();
    let mut length = size_of::<T>() as socklen_t;
    let to = (&raw mut value).cast();
    // SAFETY: the kernel writes `length` bytes at most; the caller's type is the option's.
    let result = unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, name, to, &mut length) };
    (result == 0).then_some(value)
}

/// The time limit of a socket; `None` for one without, and for what is no socket.
fn limit(socket: c_int, direction: Direction) -> Option<Duration> {
    let [seconds, microseconds] = option::<[u64; 2]>(socket, direction.option())?;
    const { assert!(size_of::<timeval>() == size_of::<[u64; 2]>()) };
    let limit = Duration::from_secs(seconds).checked_add(Duration::from_micros(microseconds))?;
    (!limit.is_zero()).then_some(limit)
}

/// A clock that costs next to nothing to read and goes forward in jiffies, as the kernel counts
/// these limits.
fn now() -> Duration {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the time that it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// One step of that clock: what began in the middle of one does not end early.
fn jiffy() -> Duration {
    let mut step = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as above.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut step) };
    Duration::new(step.tv_sec as u64, step.tv_nsec as u32)
}

/// Calls; goes on as long as stops end the call, for as long as the socket's limit says.
#[inline]
pub fn on_socket<R: Failed>(socket: c_int, direction: Direction, mut call: impl FnMut() -> R) -> R {
    let began = now();
    match tried(&mut call) {
        (result, false) => result,
        (_, true) => go_on(socket, direction, began, call),
    }
}

#[cold]
fn go_on<R: Failed>(
    socket: c_int,
    direction: Direction,
    began: Duration,
    mut call: impl FnMut() -> R,
) -> R {
    loop {
        if let Some(limit) = limit(socket, direction) {
            let left = (limit.saturating_add(jiffy())).saturating_sub(now() - began);
            if left.is_zero() {
                set_error(direction.error(socket));
                return R::FAILED;
            }
            let wanted =
                timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            let mut file = pollfd { fd: socket, events: direction.events(), revents: 0 };
            // SAFETY: structures of ours.
            match unsafe { files::ppoll(&mut file, 1, &wanted, null()) } {
                0 => {
                    set_error(direction.error(socket));
                    return R::FAILED;
                }
                1 => {}
                _ => return R::FAILED,
            }
        }
        if let (result, false) = tried(&mut call) {
            return result;
        }
    }
}

/// As accept(2).
///
/// # Safety
/// As accept(2); so for all that follow.
pub unsafe fn accept(socket: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
    // SAFETY: the caller's promise.
    on_socket(socket, Direction::In, || unsafe { real::accept(socket, address, length) })
}

/// As accept4(2).
///
/// # Safety
/// As accept4(2).
pub unsafe fn accept4(
    socket: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    on_socket(socket, Direction::In, || unsafe { real::accept4(socket, address, length, flags) })
}

/// As connect(2). To call it again goes on with the connection that is being made.
///
/// # Safety
/// As connect(2).
pub unsafe fn connect(socket: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    // SAFETY: the caller's promise.
    on_socket(socket, Direction::Connect, || unsafe { real::connect(socket, address, length) })
}

/// As send(2).
///
/// # Safety
/// As send(2).
pub unsafe fn send(socket: c_int, buffer: *const c_void, bytes: usize, flags: c_int) -> isize {
    // SAFETY: the caller's promise.
    on_socket(socket, Direction::Out, || unsafe { real::send(socket, buffer, bytes, flags) })
}

/// As sendto(2).
///
/// # Safety
/// As sendto(2).
pub unsafe fn sendto(
    socket: c_int,
    buffer: *const c_void,
    bytes: usize,
    flags: c_int,
    address: *const sockaddr,
    length: socklen_t,
) -> isize {
    // SAFETY: the caller's promise.
    on_socket(socket, Direction::Out, || unsafe {
        real::sendto(socket, buffer, bytes, flags, address, length)
    })
}

/// As sendmsg(2).
///
/// # Safety
/// As sendmsg(2).
pub unsafe fn sendmsg(socket: c_int, message: *const msghdr, flags: c_int) -> isize {
    // SAFETY: the caller's promise.
    on_socket(socket, Direction::Out, || unsafe { real::sendmsg(socket, message, flags) })
}

/// As sendmmsg(2).
///
/// # Safety
/// As sendmmsg(2).
pub unsafe fn sendmmsg(socket: c_int, messages: *mut mmsghdr, count: u32, flags: c_int) -> c_int {
    // SAFETY: the caller's promise.
    on_socket(socket, Direction::Out, || unsafe { real::sendmmsg(socket, messages, count, flags) })
}

/// As write(2).
///
/// # Safety
/// As write(2).
pub unsafe fn write(file: c_int, buffer: *const c_void, bytes: usize) -> isize {
    process_memory::write_at_position(file, bytes, || {
        // SAFETY: the caller's promise.
        on_socket(file, Direction::Out, || unsafe { real::write(file, buffer, bytes) })
    })
}

/// As writev(2).
///
/// # Safety
/// As writev(2).
pub unsafe fn writev(file: c_int, vectors: *const iovec, count: c_int) -> isize {
    // SAFETY: the caller's promise.
    on_socket(file, Direction::Out, || unsafe { real::writev(file, vectors, count) })
}

//! Cleaners, and queues of references: what is told that an object is gone without getting it back.
//!
//! Invariant: an object is looked up before it is believed; wrong use changes nothing. A queue that
//! was closed is recognised. Called from any thread.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;
use core::time::Duration;
use neap_core::api::Instant;

use neap_core::api::{
    self, Kind,
    cleaner::{self, Clean, Taken},
    queue::{self, Queue},
};

use crate::misuse::misuse;
use crate::object_check::object_or_tell;
use crate::status::Status;

/// The cleaners of an object that is about to move, kept where the collector sees them.
pub struct Moving {
    few: [Taken; 8],
    /// In an uncollectable object, where `few` has no room.
    many: *mut Taken,
    count: usize,
}

/// Takes the cleaners and references off an object that is about to be freed or moved.
pub fn take(object: *mut c_void) -> Moving {
    let mut moving = Moving { few: [Taken::NONE; 8], many: null_mut(), count: 0 };
    let count = cleaner::count(object as usize);
    if count > moving.few.len() {
        moving.many = api::allocate(count * size_of::<Taken>(), Kind::Uncollectable).cast();
        if moving.many.is_null() {
            misuse(
                Status::NoMemory,
                format_args!("no memory to keep the cleaners of {object:p}, which will not run"),
            );
        } else {
            // SAFETY: zeroed memory for as many; zeros are Taken::NONE.
            let room = unsafe { core::slice::from_raw_parts_mut(moving.many, count) };
            moving.count = cleaner::take(object as usize, room);
            return moving;
        }
        while cleaner::take(object as usize, &mut moving.few) > 0 {}
        return moving;
    }
    if count > 0 {
        moving.count = cleaner::take(object as usize, &mut moving.few);
    }
    moving
}

impl Moving {
    /// Gives them to an object.
    pub fn put_back(self, object: *mut c_void) {
        let taken = if self.many.is_null() {
            &self.few[..self.count]
        } else {
            // SAFETY: filled by `take`.
            unsafe { core::slice::from_raw_parts(self.many, self.count) }
        };
        if cleaner::put_back(object as usize, taken).is_err() {
            misuse(
                Status::NoMemory,
                format_args!(
                    "no memory for the cleaners of {object:p}, some of which will not run"
                ),
            );
        }
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        if !self.many.is_null() {
            // SAFETY: allocated by `take`, and nobody else knows it.
            let _ = unsafe { api::free(self.many.cast()) };
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_cleaner_add_at(
    object: *const c_void,
    function: Option<Clean>,
    argument: *mut c_void,
    place: *const c_char,
) -> Status {
    api::initialize();
    if let Err(status) = object_or_tell(object, "neap_cleaner_add") {
        return status;
    }
    let Some(function) = function else {
        return misuse(
            Status::BadArgument,
            format_args!("neap_cleaner_add without a function: there is nothing to run"),
        );
    };
    // SAFETY: neap.h asks for null or a text that lives for ever.
    let place = (!place.is_null()).then(|| unsafe { CStr::from_ptr::<'static>(place) });
    match cleaner::add(object as usize, function, argument as usize, place) {
        Ok(()) => Status::Ok,
        Err(_) => Status::NoMemory,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_cleaner_remove(
    object: *const c_void,
    function: Option<Clean>,
    argument: *mut c_void,
) -> Status {
    let found =
        function.is_some_and(|clean| cleaner::remove(object as usize, clean, argument as usize));
    if found { Status::Ok } else { Status::NotFound }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_queue_open() -> *const Queue {
    api::initialize();
    queue::open().map_or(core::ptr::null(), core::ptr::from_ref)
}

fn open_queue(queue: *const Queue, what: &str) -> Result<&'static Queue, Status> {
    Queue::open_at(queue as usize).ok_or_else(|| {
        misuse(
            Status::BadArgument,
            format_args!(
                "{what} of {queue:p}, which is no open queue: it was closed, or does not \
                come from neap_queue_open"
            ),
        )
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_queue_close(queue: *const Queue) -> Status {
    match open_queue(queue, "neap_queue_close") {
        Ok(queue) if queue::close(queue) => Status::Ok,
        Ok(_) => Status::BadArgument,
        Err(status) => status,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_queue_add(
    queue: *const Queue,
    object: *const c_void,
    value: *mut c_void,
) -> Status {
    let queue = match open_queue(queue, "neap_queue_add") {
        Ok(queue) => queue,
        Err(status) => return status,
    };
    if let Err(status) = object_or_tell(object, "neap_queue_add") {
        return status;
    }
    match queue.add(object as usize, value as usize) {
        Ok(()) => Status::Ok,
        Err(_) => Status::NoMemory,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_queue_remove(
    queue: *const Queue,
    object: *const c_void,
    value: *mut c_void,
) -> Status {
    match open_queue(queue, "neap_queue_remove") {
        Ok(queue) if queue.remove(object as usize, value as usize) => Status::Ok,
        Ok(_) => Status::NotFound,
        Err(status) => status,
    }
}

fn give(taken: queue::Taken, value: Option<&mut *mut c_void>) -> c_int {
    let queue::Taken::Value(word) = taken else { return 0 };
    if let Some(value) = value {
        *value = word as *mut c_void;
    }
    1
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_queue_poll(queue: *const Queue, value: Option<&mut *mut c_void>) -> c_int {
    open_queue(queue, "neap_queue_poll").map_or(0, |queue| give(queue.take(), value))
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_queue_wait(
    queue: *const Queue,
    value: Option<&mut *mut c_void>,
    at_most_ns: u64,
) -> c_int {
    let is_bounded = at_most_ns != u64::MAX;
    let deadline = is_bounded.then(|| Instant::now() + Duration::from_nanos(at_most_ns));
    open_queue(queue, "neap_queue_wait").map_or(0, |queue| give(queue.wait(deadline), value))
}

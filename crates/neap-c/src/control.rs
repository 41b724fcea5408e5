//! Collections on request, off and on; the stopped world; options; the out-of-memory callback; the
//! version.
//!
//! Invariant: texts handed out live for ever. Called from any thread.

use core::alloc::Layout;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering::*};
use rust_alloc::alloc::alloc;

use neap_core::api;
use neap_core::api::program_call::{self, Lost};

use crate::inline;
use crate::references::callback::Slot;

#[unsafe(no_mangle)]
pub extern "C" fn neap_init() {
    api::initialize();
    inline::settle();
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_collect() -> c_int {
    api::collect().into()
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_collect_if_due() -> c_int {
    api::collect_if_due().into()
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_collect_and_release() -> c_int {
    api::collect_and_release().into()
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_release_memory() {
    api::release_memory();
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_expand(bytes: usize) -> c_int {
    api::initialize();
    api::expand(bytes).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_enable() {
    api::enable();
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_disable() {
    api::disable();
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_is_disabled() -> c_int {
    api::is_disabled().into()
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_set_automatic(on: c_int) {
    api::set_automatic(on != 0);
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_hold_collections() {
    api::hold_collections();
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_release_collections() {
    api::release_collections();
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_finish_collection() {
    api::embedding::finish_under_way();
}

type Function = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

#[unsafe(no_mangle)]
pub extern "C" fn neap_with_stopped_world(
    function: Function,
    argument: *mut c_void,
) -> *mut c_void {
    api::initialize();
    let words = [argument as usize, 0, 0, 0];
    // SAFETY: the caller's function, with the argument that it is for.
    let result = api::with_stopped_world(|| unsafe {
        program_call::call("function for a stopped world", Lost::Nothing, function as usize, words)
    });
    result.flatten().unwrap_or(0) as *mut c_void
}

type OutOfMemoryCallback = unsafe extern "C" fn(usize, *mut c_void) -> *mut c_void;
static OUT_OF_MEMORY: Slot<OutOfMemoryCallback> = Slot::new();

unsafe extern "C" fn out_of_memory(bytes: usize) -> *mut c_void {
    match OUT_OF_MEMORY.get() {
        // SAFETY: the program's, for this.
        Some((callback, environment)) => unsafe { callback(bytes, environment) },
        None => null_mut(),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_set_out_of_memory_callback(
    callback: Option<OutOfMemoryCallback>,
    environment: *mut c_void,
) -> crate::status::Status {
    let status = OUT_OF_MEMORY.set(callback, environment);
    api::set_out_of_memory_callback(Some(out_of_memory));
    status
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_option_set(name: *const c_char, value: *const c_char) -> *const c_char {
    if name.is_null() || value.is_null() {
        return c"an option needs a name and a value, not null".as_ptr();
    }
    // SAFETY: neap.h asks for strings.
    let (name, value) = unsafe { (CStr::from_ptr(name), CStr::from_ptr(value)) };
    match api::set_option(name.to_bytes(), value.to_bytes()) {
        Ok(()) => null(),
        Err(text) => terminated(text),
    }
}

/// A text with its NUL, and where it came from: there are as many as the library has messages.
struct Terminated {
    source: &'static str,
    text: *const c_char,
    next: *mut Terminated,
}

static TEXTS: AtomicPtr<Terminated> = AtomicPtr::new(null_mut());

/// The text as a C string, the same each time.
fn terminated(source: &'static str) -> *const c_char {
    let mut first = TEXTS.load(Acquire);
    let mut entry = first;
    // SAFETY: null or an entry, which lives for ever; so are those it leads to.
    while let Some(known) = unsafe { entry.as_ref() } {
        if core::ptr::eq(known.source, source) {
            return known.text;
        }
        entry = known.next;
    }
    let (Ok(bytes), room) = (Layout::array::<u8>(source.len() + 1), Layout::new::<Terminated>())
    else {
        return c"refused".as_ptr();
    };
    // SAFETY: both layouts have a size.
    let (text, fresh) = unsafe { (alloc(bytes), alloc(room).cast::<Terminated>()) };
    if text.is_null() || fresh.is_null() {
        return c"no memory".as_ptr();
    }
    // SAFETY: fresh memory for the text and its NUL.
    unsafe {
        text.copy_from_nonoverlapping(source.as_ptr(), source.len());
        text.add(source.len()).write(0);
    }
    loop {
        // SAFETY: memory for one entry that nobody else knows yet.
        unsafe { fresh.write(Terminated { source, text: text.cast(), next: first }) };
        match TEXTS.compare_exchange(first, fresh, AcqRel, Acquire) {
            Ok(_) => return text.cast(),
            Err(newer) => first = newer,
        }
    }
}

/// The version of the package, as text with its NUL.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");

#[unsafe(no_mangle)]
pub extern "C" fn neap_version() -> *const c_char {
    VERSION.as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_terminated_and_kept_once() {
        let text = terminated("a text");
        assert_eq!(text, terminated("a text"));
        // SAFETY: `terminated` gives a C string.
        assert_eq!(unsafe { CStr::from_ptr(text) }, c"a text");
        assert_eq!(
            CStr::from_bytes_with_nul(VERSION.as_bytes()).unwrap().to_bytes().len() + 1,
            VERSION.len()
        );
    }
}

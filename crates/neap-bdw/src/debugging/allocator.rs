//! The debugging allocator: `GC_debug_*`, which remember file and line and notice overruns when an
//! object is freed or resized, and at each collection.
//!
//! Invariant: what these functions get may also be an object of the ordinary allocator, and is
//! treated as such. Called from any thread.

use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::Ordering::Relaxed;

use crate::alloc::{
    GC_free, GC_malloc, GC_malloc_atomic_uncollectable, GC_malloc_uncollectable, GC_realloc,
};
use crate::core_api::{self as api};
use crate::core_api::{Kind, finalizer::Order, functions::AtomicFunction};
use crate::debugging::freed_later;
use crate::debugging::header::{self, HEADER_BYTES};
use crate::debugging::output::{self, Stream};
use crate::kinds::kind::{
    GC_generic_or_special_malloc, GC_get_kind_and_size, PTRFREE, allocate_debug_leaf,
};
use crate::references::finalize::{self, GC_finalization_proc};
use crate::settings::variables::GC_find_leak;

macro_rules! debug_allocators {
    ($($name:ident => $plain:path;)*) => {
        $(
            #[unsafe(no_mangle)]
            pub extern "C" fn $name(bytes: usize, file: *const c_char, line: c_int) -> *mut c_void {
                header::allocate(bytes, file, line, |bytes| $plain(bytes))
            }
        )*
    };
}

debug_allocators! {
    GC_debug_malloc => GC_malloc;
    GC_debug_malloc_atomic => allocate_debug_leaf;
    GC_debug_malloc_uncollectable => GC_malloc_uncollectable;
    GC_debug_malloc_atomic_uncollectable => GC_malloc_atomic_uncollectable;
    GC_debug_malloc_ignore_off_page => GC_malloc;
    GC_debug_malloc_atomic_ignore_off_page => allocate_debug_leaf;
    GC_debug_malloc_stubborn => GC_malloc;
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_debug_generic_or_special_malloc(
    bytes: usize,
    kind: c_int,
    file: *const c_char,
    line: c_int,
) -> *mut c_void {
    header::allocate(bytes, file, line, |bytes| match kind {
        PTRFREE => allocate_debug_leaf(bytes),
        _ => GC_generic_or_special_malloc(bytes, kind),
    })
}

/// For redirected malloc(3): the place is not known.
#[unsafe(no_mangle)]
pub extern "C" fn GC_debug_malloc_replacement(bytes: usize) -> *mut c_void {
    GC_debug_malloc(bytes, c"unknown".as_ptr(), 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_debug_realloc_replacement(object: *mut c_void, bytes: usize) -> *mut c_void {
    GC_debug_realloc(object, bytes, c"unknown".as_ptr(), 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_debug_free(object: *mut c_void) {
    if object.is_null() {
        return;
    }
    let Some(header) = header::header_of(object) else {
        // Not ours: the ordinary function knows what it is, or says what is wrong.
        return GC_free(object);
    };
    if let Some(damage) = header::damage(object, &header) {
        header::complain("GC_debug_free", object, &header, damage);
        describe(object);
    }
    if freed_later::leave(object, &header) {
        return;
    }
    let base = object.wrapping_byte_sub(HEADER_BYTES);
    // A second free must not find a header.
    // SAFETY: the header lies before the object.
    unsafe { base.cast::<[usize; 4]>().write([0; 4]) };
    GC_free(base);
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_debug_realloc(
    object: *mut c_void,
    bytes: usize,
    file: *const c_char,
    line: c_int,
) -> *mut c_void {
    if object.is_null() {
        return GC_debug_malloc(bytes, file, line);
    }
    if bytes == 0 {
        GC_debug_free(object);
        return null_mut();
    }
    let Some(header) = header::header_of(object) else {
        return GC_realloc(object, bytes);
    };
    let kind = GC_get_kind_and_size(object, null_mut());
    let new = GC_debug_generic_or_special_malloc(bytes, kind, file, line);
    if !new.is_null() {
        // SAFETY: both are as long as the shorter of the two, and distinct.
        unsafe {
            new.cast::<u8>().copy_from_nonoverlapping(object.cast(), bytes.min(header.bytes));
        }
        GC_debug_free(object);
    }
    new
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_debug_header_size() -> usize {
    HEADER_BYTES
}

/// What a finalizer of a debug object is registered with: finalizers are told the program's
/// pointer, not the object's start.
struct Wrapped {
    function: GC_finalization_proc,
    data: *mut c_void,
}

unsafe extern "C" fn call_wrapped(base: *mut c_void, wrapped: *mut c_void) {
    // SAFETY: `wrap` made it, and the registration has kept it alive.
    let Wrapped { function, data } = unsafe { wrapped.cast::<Wrapped>().read() };
    // SAFETY: the program's finalizer, once for its object.
    unsafe { function(base.wrapping_byte_add(HEADER_BYTES), data) };
}

fn register(
    object: *mut c_void,
    function: Option<GC_finalization_proc>,
    data: *mut c_void,
    old_function: *mut Option<GC_finalization_proc>,
    old_data: *mut *mut c_void,
    order: Order,
) {
    if header::header_of(object).is_none() {
        finalize::register(object, function, data, old_function, old_data, order);
        return;
    }
    if GC_find_leak.load(Relaxed) != 0 {
        // As there, and nothing is made that would be a leak.
        return;
    }
    let mut wrapped = null_mut();
    if let Some(function) = function {
        wrapped = api::allocate(size_of::<Wrapped>(), Kind::Conservative).cast::<c_void>();
        if wrapped.is_null() {
            return;
        }
        // SAFETY: as large as it has to be.
        unsafe { wrapped.cast::<Wrapped>().write(Wrapped { function, data }) };
    }
    let (mut former, mut former_data): (Option<GC_finalization_proc>, _) = (None, null_mut());
    let new = function.map(|_| call_wrapped as GC_finalization_proc);
    if !finalize::register(object, new, wrapped, &mut former, &mut former_data, order) {
        return;
    }
    if former.is_some_and(|former| former as usize == call_wrapped as *const () as usize) {
        // SAFETY: what is registered with `call_wrapped` was made above, and `former_data` on our
        // stack keeps it alive.
        let unwrapped = unsafe { former_data.cast::<Wrapped>().read() };
        (former, former_data) = (Some(unwrapped.function), unwrapped.data);
    }
    // SAFETY: variables of the caller where they are not null, says gc.h.
    unsafe {
        if let Some(variable) = old_function.as_mut() {
            *variable = former;
        }
        if let Some(variable) = old_data.as_mut() {
            *variable = former_data;
        }
    }
}

macro_rules! debug_registrations {
    ($($name:ident: $order:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            pub extern "C" fn $name(
                object: *mut c_void,
                function: Option<GC_finalization_proc>,
                data: *mut c_void,
                old_function: *mut Option<GC_finalization_proc>,
                old_data: *mut *mut c_void,
            ) {
                register(object, function, data, old_function, old_data, $order);
            }
        )*
    };
}

debug_registrations! {
    GC_debug_register_finalizer: Order::Topological;
    GC_debug_register_finalizer_ignore_self: Order::IgnoreSelf;
    GC_debug_register_finalizer_no_order: Order::NoOrder;
    GC_debug_register_finalizer_unreachable: Order::Unreachable;
}

type DescribeFunction = unsafe extern "C" fn(*mut c_void, *mut c_char);
static DESCRIBE: [AtomicFunction<DescribeFunction>; 64] = [const { AtomicFunction::none() }; 64];
/// `GC_TYPE_DESCR_LEN`.
const DESCRIPTION_BYTES: usize = 40;

/// The function is asked when a complaint about an object of the kind is printed.
#[unsafe(no_mangle)]
pub extern "C" fn GC_register_describe_type_fn(kind: c_int, function: Option<DescribeFunction>) {
    if let Some(slot) = usize::try_from(kind).ok().and_then(|kind| DESCRIBE.get(kind)) {
        slot.set(function);
    }
}

fn describe(object: *mut c_void) {
    let kind = GC_get_kind_and_size(object, null_mut());
    let Some(function) = DESCRIBE.get(kind as usize).and_then(AtomicFunction::get) else { return };
    let mut text = [0_u8; DESCRIPTION_BYTES + 1];
    // SAFETY: the program's, for this; the buffer is as long as gc_mark.h says.
    unsafe { function(object, text.as_mut_ptr().cast()) };
    let length = text.iter().position(|&byte| byte == 0).unwrap_or(DESCRIPTION_BYTES);
    output::write(Stream::Error, b"its type: ");
    output::write(Stream::Error, &text[..length]);
    output::write(Stream::Error, b"\n");
}

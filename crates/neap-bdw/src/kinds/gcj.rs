//! `gc_gcj.h`: objects whose first word points to a type that holds a mark descriptor in its second
//! word.
//!
//! Invariant: until the first word is written the object has no pointers, so a cycle in between
//! does no harm. Called from any thread.

use core::ffi::{c_char, c_int, c_uint, c_void};
use core::sync::atomic::Ordering::Relaxed;

use crate::core_api::{self as api, Calls};
use crate::debugging::header;
use crate::failure::die;
use crate::kinds::descriptors::{self, PER_OBJECT_BIAS, TAG_PER_OBJECT, make_proc};
use crate::kinds::kind::{self, GC_generic_malloc};
use crate::kinds::mark_procs::{self, MarkProcedure};
use crate::lock::with_alloc_lock;
use crate::settings::variables::{GC_gcj_debug_kind, GC_gcj_kind};

/// Where in the type its descriptor is.
const DESCRIPTOR_DISPLACEMENT: usize = size_of::<usize>();
/// Of the kind: each object's own is there.
const DESCRIPTOR: usize =
    0_usize.wrapping_sub(DESCRIPTOR_DISPLACEMENT + PER_OBJECT_BIAS) | TAG_PER_OBJECT;

/// Must come before the allocators of this file; later calls change nothing.
#[unsafe(no_mangle)]
pub extern "C" fn GC_init_gcj_malloc(index: c_int, procedure: Option<MarkProcedure>) {
    // One thread makes the kinds, and others wait for them.
    with_alloc_lock(|| {
        if GC_gcj_kind.load(Relaxed) == 0 {
            make_kinds(index, procedure);
        }
    });
}

fn make_kinds(index: c_int, procedure: Option<MarkProcedure>) {
    let Some(index) = usize::try_from(index).ok().filter(|&index| index < 64) else {
        die(format_args!("GC_init_gcj_malloc: {index} is no index of a mark procedure (0 to 63)"))
    };
    mark_procs::set_procedure(index, procedure);
    // SAFETY: reads the environment as any program does at start-up.
    let ignore_types = !unsafe { libc::getenv(c"GC_IGNORE_GCJ_INFO".as_ptr()) }.is_null();
    let kind = if ignore_types {
        kind::make(0, true, true, Calls::NotYet)
    } else {
        kind::make(DESCRIPTOR, false, true, Calls::NotYet)
    };
    let debug_kind = kind::make(make_proc(index, 1), false, true, Calls::NotYet);
    GC_gcj_debug_kind.store(debug_kind as c_int, Relaxed);
    GC_gcj_kind.store(kind as c_int, Relaxed);
}

/// The same with the types that the arguments have; a descriptor that is not where it is looked for
/// ends the program.
#[unsafe(no_mangle)]
pub extern "C" fn GC_init_gcj_malloc_mp(
    index: c_uint,
    procedure: Option<MarkProcedure>,
    displacement: usize,
) {
    if displacement != DESCRIPTOR_DISPLACEMENT {
        die(format_args!(
            "GC_init_gcj_malloc_mp: the descriptor is {displacement} bytes into the type; pass \
             GC_GCJ_MARK_DESCR_OFFSET ({DESCRIPTOR_DISPLACEMENT})"
        ));
    }
    GC_init_gcj_malloc(c_int::try_from(index).unwrap_or(-1), procedure);
}

/// The kind, after `GC_init_gcj_malloc`.
fn kind_of(variable: &core::sync::atomic::AtomicI32, function: &str) -> c_int {
    match variable.load(Relaxed) {
        0 => die(format_args!("{function}: call GC_init_gcj_malloc first")),
        kind => kind,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_gcj_malloc(bytes: usize, type_: *mut c_void) -> *mut c_void {
    let kind = kind_of(&GC_gcj_kind, "GC_gcj_malloc");
    let object = GC_generic_malloc(bytes.max(size_of::<usize>()), kind);
    if !object.is_null() {
        // SAFETY: the object has a first word, and the type, as gcj.h says, a descriptor.
        unsafe {
            object.cast::<*mut c_void>().write(type_);
            if descriptors::may_call(object as usize, DESCRIPTOR) {
                api::layouts::note_calls();
            }
        }
    }
    object
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_gcj_malloc_ignore_off_page(bytes: usize, type_: *mut c_void) -> *mut c_void {
    GC_gcj_malloc(bytes, type_)
}

/// With a debug header in front; always traced by the mark procedure, with environment 1.
#[unsafe(no_mangle)]
pub extern "C" fn GC_debug_gcj_malloc(
    bytes: usize,
    type_: *mut c_void,
    file: *const c_char,
    line: c_int,
) -> *mut c_void {
    let kind = kind_of(&GC_gcj_debug_kind, "GC_debug_gcj_malloc");
    api::layouts::note_calls();
    let object = header::allocate(bytes.max(size_of::<usize>()), file, line, |bytes| {
        GC_generic_malloc(bytes, kind)
    });
    if !object.is_null() {
        // SAFETY: the object has a first word.
        unsafe { object.cast::<*mut c_void>().write(type_) };
    }
    object
}

//! Layouts of typed objects, and what a layout's own trace function can say.
//!
//! Invariant: a number is passed on to the core only if it was given out here, so a wrong one is
//! told and not followed. Trace functions run with the world stopped; the rest is called from any
//! thread.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use neap_core::api::{self, Calls, LayoutError, LayoutId, Shape, Tracer};

use crate::misuse::misuse;
use crate::status::{Status, set_errno};

const NO_LAYOUT: u32 = u32::MAX;
/// One past the largest number given out.
static END: AtomicU32 = AtomicU32::new(0);

/// The layout of this number, if one was given out.
#[inline(always)]
pub fn known(number: u32) -> Option<LayoutId> {
    (number < END.load(Relaxed)).then_some(LayoutId(number))
}

fn intern(shape: Shape<'_>) -> u32 {
    given(api::layout(shape))
}

fn given(layout: Result<LayoutId, LayoutError>) -> u32 {
    match layout {
        Ok(LayoutId(number)) => {
            END.fetch_max(number + 1, Relaxed);
            number
        }
        Err(LayoutError::NoMemory) => {
            set_errno(libc::ENOMEM);
            NO_LAYOUT
        }
        Err(LayoutError::TooMany) => {
            refused(format_args!(
                "a layout was refused: the program has 65536 layouts already (make each layout \
                 once, not once per object)"
            ));
            set_errno(libc::ENOMEM);
            NO_LAYOUT
        }
        Err(LayoutError::Empty | LayoutError::TooLong) => {
            refused(format_args!("a layout's element has no words, or more than 1048576"))
        }
    }
}

#[cold]
fn refused(why: core::fmt::Arguments<'_>) -> u32 {
    misuse(Status::BadArgument, why);
    set_errno(libc::EINVAL);
    NO_LAYOUT
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_layout_bitmap(element_words: usize, bits: *const u64) -> u32 {
    let length = element_words.div_ceil(64);
    if bits.is_null() || element_words == 0 || element_words > 1 << 20 {
        return refused(format_args!(
            "neap_layout_bitmap needs 1 to 1048576 words and one bit for each, not {element_words} \
             words at {bits:p}"
        ));
    }
    // SAFETY: neap.h asks for a bit for each word.
    let bits = unsafe { core::slice::from_raw_parts(bits, length) };
    if !element_words.is_multiple_of(64) && bits[length - 1] >> (element_words % 64) != 0 {
        return refused(format_args!(
            "the bitmap of a layout of {element_words} words has bits for words beyond them"
        ));
    }
    intern(Shape::Bitmap { element_words, bits })
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_layout_prefix(bytes: usize) -> u32 {
    intern(Shape::Prefix { bytes })
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_layout_leaf() -> u32 {
    intern(Shape::Leaf)
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_layout_labelled(layout: u32, label: u32) -> u32 {
    match known(layout) {
        Some(layout) => given(api::layouts::relabelled(layout, label)),
        None => refused(format_args!("neap_layout_labelled of {layout}, which is no layout")),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_layout_label(layout: u32) -> u32 {
    known(layout).map_or(0, api::layouts::label)
}

/// To C the environment is a pointer, which is passed as a word is, and the tracer opaque.
#[unsafe(no_mangle)]
pub extern "C" fn neap_layout_function(
    function: Option<api::TraceFunction>,
    environment: *mut c_void,
) -> u32 {
    let Some(function) = function else {
        return refused(format_args!("neap_layout_function was given no function"));
    };
    let calls = Calls::Always;
    intern(Shape::Function { function, environment: environment as usize, calls })
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_trace_word(tracer: &mut Tracer<'_>, word: *const c_void) {
    tracer.word(word as usize);
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_trace_range(
    tracer: &mut Tracer<'_>,
    low: *const c_void,
    high: *const c_void,
) {
    let (low, high) = ((low as usize).next_multiple_of(8), high as usize & !7);
    if low < high {
        // SAFETY: neap.h asks for a readable range.
        unsafe { tracer.range(low, high) };
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_trace_is_marked(tracer: &Tracer<'_>, object: *const c_void) -> c_int {
    tracer.is_marked(object as usize).into()
}

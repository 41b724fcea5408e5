//! Shapes of objects: how each is allocated, and which of its words may hold pointers.
//!
//! Invariant: a shadow stores a pointer that counts only in a word that the shape scans. Layouts
//! are interned once per process. Used from every thread.

use crate::options;
use core::ffi::c_void;
use neap_core::api::{self, Calls, Kind, LayoutId, ObjectInfo, Shape as Layout, Tracer};
use std::sync::OnceLock;

/// Words of an element of the bitmap layouts, and which of them are pointers.
const BITMAPS: [(usize, u64); 3] = [(1, 0b1), (2, 0b10), (4, 0b0110)];
/// Bytes of the prefix that the prefix layout scans.
const PREFIX_BYTES: usize = 40;
/// The function layout traces one word in so many.
const STRIDE: usize = 3;

/// How an object is scanned and kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Any word may be a pointer.
    Conservative,
    /// None is.
    Leaf,
    /// By the bitmap of this number.
    Bitmap(usize),
    /// The first words are.
    Prefix,
    /// A function says which.
    Function,
    /// Conservative, and lives until it is freed.
    Uncollectable,
    /// Leaf, and lives until it is freed.
    UncollectableLeaf,
}

static LAYOUTS: OnceLock<[LayoutId; 5]> = OnceLock::new();

unsafe extern "C" fn trace(
    object: *mut c_void,
    bytes: usize,
    stride: usize,
    tracer: &mut Tracer<'_>,
) {
    for index in (1..bytes / 8).step_by(stride) {
        // SAFETY: the collector hands an object of that many bytes.
        tracer.word(unsafe { object.cast::<usize>().add(index).read() });
    }
}

/// The layouts; without trace functions the last is the one before it.
fn layouts() -> &'static [LayoutId; 5] {
    LAYOUTS.get_or_init(|| {
        fn intern(layout: Layout<'_>) -> LayoutId {
            api::layout(layout).unwrap_or_else(|_| crate::fail!("a layout was refused"))
        }
        let bitmap = |number: usize| {
            let (element_words, bits) = BITMAPS[number];
            intern(Layout::Bitmap { element_words, bits: &[bits] })
        };
        let prefix = intern(Layout::Prefix { bytes: PREFIX_BYTES });
        let function = match options::get().no_functions {
            true => prefix,
            false => intern(Layout::Function {
                function: trace,
                environment: STRIDE,
                calls: Calls::Always,
            }),
        };
        [bitmap(0), bitmap(1), bitmap(2), prefix, function]
    })
}

impl Shape {
    /// A shape by chance, the common ones more often.
    pub fn random(random: &mut fastrand::Rng) -> Self {
        match random.u32(0..100) {
            0..40 => Self::Conservative,
            40..60 => Self::Leaf,
            60..80 => Self::Bitmap(random.usize(0..BITMAPS.len())),
            80..86 => Self::Prefix,
            86..94 if options::get().no_functions => Self::Prefix,
            86..94 => Self::Function,
            94..98 => Self::Uncollectable,
            _ => Self::UncollectableLeaf,
        }
    }

    /// The layout, of a typed shape.
    pub fn layout(self) -> Option<LayoutId> {
        match self {
            Self::Bitmap(number) => Some(layouts()[number]),
            Self::Prefix => Some(layouts()[3]),
            Self::Function => Some(layouts()[4]),
            _ => None,
        }
    }

    /// The kind, where there is no layout.
    pub fn kind(self) -> Kind {
        match self {
            Self::Leaf => Kind::Leaf,
            Self::Uncollectable => Kind::Uncollectable,
            Self::UncollectableLeaf => Kind::UncollectableLeaf,
            _ => Kind::Conservative,
        }
    }

    /// Whether it lives until it is freed.
    pub fn is_pinned(self) -> bool {
        matches!(self, Self::Uncollectable | Self::UncollectableLeaf)
    }

    /// Whether its memory is scanned, and hence zeroed.
    pub fn is_scanned(self) -> bool {
        !matches!(self, Self::Leaf | Self::UncollectableLeaf)
    }

    /// Whether a pointer in the word `index` keeps its object alive.
    pub fn scans(self, index: usize) -> bool {
        match self {
            Self::Conservative | Self::Uncollectable => true,
            Self::Leaf | Self::UncollectableLeaf => false,
            Self::Bitmap(number) => {
                let (words, bits) = BITMAPS[number];
                bits >> (index % words) & 1 == 1
            }
            Self::Prefix => index < PREFIX_BYTES / 8,
            Self::Function => index % STRIDE == 1,
        }
    }

    /// Whether the collector describes an object so.
    pub fn is_of(self, info: &ObjectInfo) -> bool {
        info.layout == self.layout() && (info.layout.is_some() || info.kind == self.kind())
    }

    /// Allocates an object of this shape.
    pub fn allocate(self, bytes: usize) -> *mut u8 {
        match self.layout() {
            Some(layout) => api::allocate_typed(bytes, layout),
            None => api::allocate(bytes, self.kind()),
        }
    }
}

/// Interns the layouts before there are several threads.
pub fn initialize() {
    layouts();
}

//! What interpreters and compilers need below `Gc<T>`: objects whose layout is made while the
//! program runs, memory of their own that holds pointers, stacks of their own, snapshots of the
//! heap.
//!
//! A thread needs no safepoints: it is stopped by a signal wherever it is, in code that was made by
//! a JIT compiler too, and its registers are read. No write barrier either.
//!
//! Invariant: what is named here stays readable as long as it is named, which its guards see to.
//! From any thread.
//!
//! # Safety
//!
//! Translates to the core; each unsafe function says what it asks.

#![allow(unsafe_code)]

use std::alloc::{self, handle_alloc_error};
use std::ffi::CStr;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;

use neap_core::api::{self, LayoutError, LayoutId, Shape, StackHandle};

/// Where the pointers of an object are, said while the program runs.
///
/// ```
/// use neap::mutator::{Layout, allocate};
///
/// // Two words, the second may be a pointer; or an array of such pairs.
/// let pair = Layout::bitmap(2, &[0b10]).unwrap();
/// assert_eq!(pair, Layout::bitmap(2, &[0b10]).unwrap());
/// let ten = allocate(pair, 10 * 16);
/// // SAFETY: fresh objects of such a layout are zeroed, and there are so many bytes.
/// assert_eq!(unsafe { ten.cast::<[usize; 20]>().read() }, [0; 20]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout(LayoutId);

/// Why there is no such layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoLayout {
    /// An element has no words, or more than 2²⁰, or the bitmap is longer than it.
    Size,
    /// There is no memory, or the program has 65,536 layouts already.
    TooMany,
}

fn made(shape: Shape<'_>) -> Result<Layout, NoLayout> {
    api::layout(shape).map(Layout).map_err(|error| match error {
        LayoutError::Empty | LayoutError::TooLong => NoLayout::Size,
        LayoutError::TooMany | LayoutError::NoMemory => NoLayout::TooMany,
    })
}

impl Layout {
    /// Bit i of the bitmap, lowest first, says whether word i of an element may be a pointer; an
    /// object is one element or several. A pointer may have a tag in its low bits: it keeps the
    /// object that it points into.
    pub fn bitmap(element_words: usize, bits: &[u64]) -> Result<Self, NoLayout> {
        if element_words == 0 || element_words > 1 << 20 || bits.len() > element_words.div_ceil(64)
        {
            return Err(NoLayout::Size);
        }
        made(Shape::Bitmap { element_words, bits })
    }

    /// Any of the first words may be a pointer, none of the rest is.
    ///
    /// ```
    /// assert!(neap::mutator::Layout::prefix(4).is_ok());
    /// ```
    pub fn prefix(words: usize) -> Result<Self, NoLayout> {
        made(Shape::Prefix { bytes: words.checked_mul(8).ok_or(NoLayout::Size)? })
    }

    /// No word is a pointer, and fresh objects are not zeroed.
    ///
    /// ```
    /// assert!(neap::mutator::Layout::leaf().is_ok());
    /// ```
    pub fn leaf() -> Result<Self, NoLayout> {
        made(Shape::Leaf)
    }
}

/// A fresh object of so many bytes, zeroed unless its layout is a leaf's: at a multiple of 16 if
/// its size is one, else of 8. It lives as long as a pointer to any of its bytes lies where the
/// collector looks.
pub fn allocate(layout: Layout, bytes: usize) -> NonNull<u8> {
    NonNull::new(api::allocate_typed(bytes, layout.0)).unwrap_or_else(|| {
        let known = alloc::Layout::from_size_align(bytes, 8);
        handle_alloc_error(known.unwrap_or(alloc::Layout::new::<usize>()))
    })
}

/// Memory of the program's own whose words are roots, as long as this is there: an interpreter's
/// stack from `mmap`, a code object's constants.
#[derive(Debug)]
pub struct Roots(Range<usize>);

impl Roots {
    /// Makes roots of the words; None without memory.
    ///
    /// ```
    /// use neap::{Gc, mutator::Roots};
    /// use std::cell::UnsafeCell;
    ///
    /// let words = Box::leak(Box::new(UnsafeCell::new([0_usize; 4])));
    /// // SAFETY: the memory is there for ever.
    /// let roots = unsafe { Roots::new(words.get().cast_const()) }.unwrap();
    /// # drop(roots);
    /// ```
    ///
    /// # Safety
    ///
    /// The memory can be read until this is dropped. Parts of it are not added twice.
    pub unsafe fn new(words: *const [usize]) -> Option<Self> {
        let start = words.cast::<usize>().addr();
        let range = start..start + words.len() * size_of::<usize>();
        api::add_roots(range.clone()).then_some(Self(range))
    }
}

impl Drop for Roots {
    fn drop(&mut self) {
        api::remove_roots(self.0.clone());
    }
}

/// A stack that the program made, for coroutines. It is read as long as this is there.
#[derive(Debug)]
pub struct Stack {
    handle: StackHandle,
    /// A thread's affair while it runs on it.
    own: PhantomData<*mut u8>,
}

impl Stack {
    /// Declares memory as a stack; None without memory, or of an empty range.
    ///
    /// # Safety
    ///
    /// The memory can be read until this is dropped, and nobody stands on it then.
    pub unsafe fn new(memory: *const [u8]) -> Option<Self> {
        let start = memory.cast::<u8>().addr();
        let handle = api::stack_create(start..start + memory.len());
        (!handle.is_own()).then_some(Self { handle, own: PhantomData })
    }

    /// The calling thread is about to leave the stack that it runs on and go on in this one.
    ///
    /// # Safety
    ///
    /// The switch follows at once, and no other thread runs on it.
    pub unsafe fn switch_to(&self) {
        // SAFETY: the caller's promise; it is retired by `drop` only.
        unsafe { api::stack_switch(self.handle) };
    }

    /// The calling thread is about to go back to its own stack.
    ///
    /// # Safety
    ///
    /// The switch follows at once.
    pub unsafe fn switch_back() {
        // SAFETY: the caller's promise.
        unsafe { api::stack_switch(StackHandle::OWN) };
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: nobody stands on it, as was promised when it was made.
        unsafe { api::stack_retire(self.handle) };
    }
}

/// Runs `f` in a region in which no stop waits for this thread: for calls that wait long and that
/// the crate does not stand before.
///
/// # Safety
///
/// `f` neither follows a `Gc` nor allocates or frees, and does not unwind.
pub unsafe fn blocked<R>(f: impl FnOnce() -> R) -> R {
    api::blocked(f)
}

/// Writes the graph of all live objects to a file, in the format of Chrome's heap snapshots.
///
/// ```
/// let path = std::env::temp_dir().join(format!("{}.heapsnapshot", std::process::id()));
/// let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
/// neap::mutator::write_heap_snapshot(&name).unwrap();
/// # std::fs::remove_file(path).unwrap();
/// ```
pub fn write_heap_snapshot(path: &CStr) -> io::Result<()> {
    api::write_heap_snapshot(path).map_err(io::Error::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Gc, Weak};
    use std::hint::black_box;

    #[inline(never)]
    fn apart<R>(f: impl FnOnce() -> R) -> R {
        black_box(f)()
    }

    fn collect() {
        apart(|| black_box([0_u64; 2000]));
        crate::collect();
    }

    fn alive(weak: &[Weak<u64>]) -> usize {
        apart(|| weak.iter().filter(|one| one.upgrade().is_some()).count())
    }

    /// Objects of the layout, the second word of each a tagged pointer and the third one that no
    /// bit names; the weak references are to both.
    #[test]
    #[cfg_attr(miri, ignore = "it asks the core, which is not there under miri")]
    fn a_layout_made_at_run_time_says_what_is_kept() {
        let layout = Layout::bitmap(3, &[0b010]).unwrap();
        let array = allocate(layout, 200 * 24).cast::<[usize; 3]>();
        let (named, unnamed): (Vec<_>, Vec<_>) = apart(|| {
            (0..200)
                .map(|index| {
                    let (one, two) = (Gc::new(index), Gc::new(index));
                    let words = [7, one.as_ptr().addr() | 5, two.as_ptr().addr()];
                    // SAFETY: an element of the array.
                    unsafe { array.add(index as usize).write(words) };
                    (Gc::downgrade(one), Gc::downgrade(two))
                })
                .unzip()
        });
        collect();
        assert_eq!(alive(&named), 200);
        assert!(alive(&unnamed) < 20);
        black_box(array);
    }

    #[test]
    #[cfg_attr(miri, ignore = "it asks the core, which is not there under miri")]
    fn registered_words_are_roots_until_they_are_given_up() {
        // SAFETY: anonymous memory, unmapped at the end.
        let memory = unsafe {
            let (all, protection) = (4096, libc::PROT_READ | libc::PROT_WRITE);
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), all, protection, flags, -1, 0)
        };
        let words = std::ptr::slice_from_raw_parts(memory.cast::<usize>(), 512);
        // SAFETY: unmapped after it.
        let roots = unsafe { Roots::new(words) }.unwrap();
        let weak: Vec<_> = apart(|| {
            (0..512)
                .map(|index| {
                    let one = Gc::new(index as u64);
                    // SAFETY: within the mapping.
                    unsafe { memory.cast::<usize>().add(index).write(one.as_ptr().addr()) };
                    Gc::downgrade(one)
                })
                .collect()
        });
        collect();
        assert_eq!(alive(&weak), 512);
        drop(roots);
        collect();
        assert!(alive(&weak) < 50);
        // SAFETY: mapped above.
        unsafe { libc::munmap(memory, 4096) };
    }

    #[test]
    fn impossible_layouts_are_refused() {
        assert_eq!(Layout::bitmap(0, &[]), Err(NoLayout::Size));
        assert_eq!(Layout::bitmap(1, &[1, 1]), Err(NoLayout::Size));
        assert_eq!(Layout::bitmap((1 << 20) + 1, &[]), Err(NoLayout::Size));
    }
}

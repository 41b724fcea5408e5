//! A growable array in memory of its own mapping: for structures that grow while the world is
//! stopped, when malloc may be locked.
//!
//! Invariant: growth never calls malloc; a refused growth is reported and leaves the contents as
//! they are. As thread-safe as `Vec`.
//!
//! # Safety
//!
//! A vector by hand: what lies below the length was written, the rest of the mapping is ours, and
//! references are as long as the borrow of the vector, so that growth cannot move what somebody
//! holds.

#![allow(unsafe_code)]

use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use super::map;
use super::print::no_memory;
use crate::addr::{Address, PAGE_BYTES, round_up};

/// A growable array of plain values.
pub struct MetaVec<T: Copy> {
    start: NonNull<T>,
    length: usize,
    /// Elements that fit; 0 while nothing is mapped.
    capacity: usize,
}

// SAFETY: it owns its elements as `Vec` does.
unsafe impl<T: Copy + Send> Send for MetaVec<T> {}
// SAFETY: as above; shared access only reads.
unsafe impl<T: Copy + Sync> Sync for MetaVec<T> {}

/// The kernel gave no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

/// What may be made of zero bytes.
///
/// # Safety
/// Zero bytes are a value of the type.
pub unsafe trait Zeroed {}

impl<T: Copy> MetaVec<T> {
    /// An empty array; maps nothing.
    pub const fn new() -> Self {
        assert!(size_of::<T>() > 0 && align_of::<T>() <= PAGE_BYTES);
        Self { start: NonNull::dangling(), length: 0, capacity: 0 }
    }

    /// Makes room for `more` further elements.
    #[inline]
    pub fn try_reserve(&mut self, more: usize) -> Result<(), NoMemory> {
        match self.length.checked_add(more) {
            Some(wanted) if wanted <= self.capacity => Ok(()),
            Some(wanted) => self.grow(wanted),
            None => Err(NoMemory),
        }
    }

    #[cold]
    fn grow(&mut self, wanted: usize) -> Result<(), NoMemory> {
        let bytes = wanted.max(self.capacity * 2).checked_mul(size_of::<T>()).ok_or(NoMemory)?;
        let bytes = round_up(bytes, PAGE_BYTES).ok_or(NoMemory)?;
        let start = if self.capacity == 0 {
            map::allocate(bytes)
        } else {
            // SAFETY: the mapping is ours as a whole, and `&mut self` means nobody holds an address
            // into it.
            unsafe { map::grow(Address(self.start.as_ptr() as usize), self.mapped_bytes(), bytes) }
        }
        .map_err(|_| NoMemory)?;
        self.start = NonNull::new(start.pointer()).ok_or(NoMemory)?;
        self.capacity = bytes / size_of::<T>();
        Ok(())
    }

    fn mapped_bytes(&self) -> usize {
        (self.capacity * size_of::<T>()).next_multiple_of(PAGE_BYTES)
    }

    /// Appends, growing as needed.
    #[inline(always)]
    pub fn try_push(&mut self, value: T) -> Result<(), NoMemory> {
        if self.length == self.capacity {
            self.try_reserve(1)?;
        }
        // SAFETY: length < capacity.
        unsafe { self.start.add(self.length).write(value) };
        self.length += 1;
        Ok(())
    }

    /// One past the last element: where the next ones may be written, as many as were reserved.
    #[inline(always)]
    pub fn end(&mut self) -> *mut T {
        // SAFETY: at most one past the mapping, or the dangling start of none.
        unsafe { self.start.as_ptr().add(self.length) }
    }

    /// Makes the elements end at `end`.
    ///
    /// # Safety
    /// `end` lies between the first element and the end of what was reserved, and everything before
    /// it was written.
    #[inline(always)]
    pub unsafe fn set_end(&mut self, end: *mut T) {
        // SAFETY: the caller's promise: both are in the same mapping.
        self.length = unsafe { end.offset_from(self.start.as_ptr()) } as usize;
    }

    /// Appends; the caller has reserved room. Where it has not, and the system gives none, the
    /// process ends with a message.
    #[inline]
    pub fn push(&mut self, value: T) {
        if self.try_push(value).is_err() {
            no_memory();
        }
    }

    /// Takes the last element off.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<T> {
        self.length = self.length.checked_sub(1)?;
        // SAFETY: the element was written by push.
        Some(unsafe { self.start.add(self.length).read() })
    }

    /// Takes element `index` off and puts the last one in its place.
    pub fn swap_remove(&mut self, index: usize) -> T {
        let value = self[index];
        let last = self.length - 1;
        self[index] = self[last];
        self.length = last;
        value
    }

    /// Makes it `length` long at most.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Forgets the elements and keeps the memory.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// `length` elements of zero bytes, whose pages are not touched.
    pub fn zeroed(length: usize) -> Result<Self, NoMemory>
    where
        T: Zeroed,
    {
        let mut zeros = Self::new();
        zeros.try_reserve(length)?;
        // What was just mapped reads as zero.
        zeros.length = length;
        Ok(zeros)
    }

    /// Makes it `length` long, filling with `value`.
    pub fn try_resize(&mut self, length: usize, value: T) -> Result<(), NoMemory> {
        self.try_reserve(length.saturating_sub(self.length))?;
        while self.length < length {
            self.try_push(value)?;
        }
        self.length = length;
        Ok(())
    }
}

impl<T: Copy> Default for MetaVec<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Copy> Deref for MetaVec<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: the first `length` elements were written.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl<T: Copy> DerefMut for MetaVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: the first `length` elements were written, and we are borrowed alone.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl<T: Copy> Drop for MetaVec<T> {
    fn drop(&mut self) {
        map::release(Address(self.start.as_ptr() as usize), self.mapped_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // SAFETY: a number.
    unsafe impl Zeroed for u64 {}

    #[test]
    fn zeros_are_there_and_take_no_memory() {
        let zeros = MetaVec::<u64>::zeroed(1 << 20).unwrap();
        let at = Address(zeros.as_ptr() as usize);
        assert_eq!(map::resident_bytes(at, PAGE_BYTES * 16, &mut [0; 16]), Some(0));
        assert!(zeros.len() == 1 << 20 && zeros.iter().all(|zero| *zero == 0));
    }

    #[test]
    fn behaves_as_a_vector() {
        let mut vector = MetaVec::new();
        for value in 0..10_000_u64 {
            vector.push(value);
        }
        assert_eq!(vector.iter().sum::<u64>(), 49_995_000);
        assert_eq!(vector.pop(), Some(9_999));
        assert_eq!(vector.swap_remove(0), 0);
        assert_eq!((vector[0], vector.len()), (9_998, 9_998));
        vector.truncate(3);
        assert_eq!(vector[..], [9_998, 1, 2]);
        vector.try_resize(5, 7).unwrap();
        assert_eq!(vector[..], [9_998, 1, 2, 7, 7]);
        vector.clear();
        assert_eq!(vector.pop(), None);
    }

    #[test]
    fn refused_growth_loses_nothing() {
        let mut vector = MetaVec::new();
        vector.push(1_u64);
        assert_eq!(vector.try_reserve(usize::MAX / 8), Err(NoMemory));
        assert_eq!(vector.try_reserve(1 << 58), Err(NoMemory));
        assert_eq!(vector[..], [1]);
    }
}

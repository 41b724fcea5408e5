//! Function pointers that threads exchange: callbacks of the program, hooks of upper layers,
//! functions of libc's that were looked up.
//!
//! Invariant: an [`AtomicFunction`] holds null or a value of its own type, so what is read from it
//! can be called. Whoever sets one publishes what the function reads. Called from any thread, also
//! in handlers of signals and between stop and resume: neither allocates nor locks.
//!
//! # Safety
//! What is stored is a [`Function`]: a value without padding, as large as a pointer, and never
//! null.

#![allow(unsafe_code)]

use core::ffi::c_void;
use core::fmt::Pointer;
use core::marker::PhantomData;
use core::mem::transmute_copy;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering::*};

/// A type of function pointers. Those are copied, printed as pointers and never null: where this is
/// used, [`AtomicFunction`] refuses at compile time what is larger, smaller or may be null.
pub trait Function: Copy + Pointer + 'static {}
impl<F: Copy + Pointer + 'static> Function for F {}

/// A function, or none. Laid out as a pointer variable of C's is.
#[repr(transparent)]
pub struct AtomicFunction<F> {
    address: AtomicPtr<c_void>,
    function: PhantomData<F>,
}

// SAFETY: function pointers may be used by any thread, and the variable is atomic.
unsafe impl<F: Function> Sync for AtomicFunction<F> {}

/// Fails to compile for a type that is no function pointer.
const fn assert_is_pointer<F: Function>() {
    const {
        assert!(size_of::<F>() == size_of::<*mut c_void>(), "not as large as a pointer");
        assert!(size_of::<Option<F>>() == size_of::<F>(), "may be null");
    }
}

impl<F: Function> AtomicFunction<F> {
    /// No function.
    pub const fn none() -> Self {
        assert_is_pointer::<F>();
        Self { address: AtomicPtr::new(null_mut()), function: PhantomData }
    }

    /// This function.
    pub const fn new(function: F) -> Self {
        assert_is_pointer::<F>();
        // SAFETY: a function pointer is a pointer.
        let address = unsafe { transmute_copy::<F, *mut c_void>(&function) };
        Self { address: AtomicPtr::new(address), function: PhantomData }
    }

    /// The function, if there is one.
    #[inline]
    pub fn get(&self) -> Option<F> {
        let address = self.address.load(Acquire);
        // SAFETY: null, which is none, or stored from such a function.
        unsafe { transmute_copy::<*mut c_void, Option<F>>(&address) }
    }

    /// Whether there is one.
    #[inline]
    pub fn is_set(&self) -> bool {
        !self.address.load(Relaxed).is_null()
    }

    /// Replaces the function; gives the one before.
    pub fn set(&self, function: Option<F>) -> Option<F> {
        // SAFETY: a function pointer is a pointer, and none is null.
        let address = unsafe { transmute_copy::<Option<F>, *mut c_void>(&function) };
        // SAFETY: null, which is none, or stored from such a function.
        unsafe { transmute_copy::<*mut c_void, Option<F>>(&self.address.swap(address, AcqRel)) }
    }

    /// Replaces the function by the one at an address; null for none.
    ///
    /// # Safety
    /// There is a function of this type at the address.
    pub unsafe fn set_address(&self, address: *mut c_void) {
        self.address.store(address, Release);
    }
}

/// The function at the address that a function pointer was cast to, for records that keep words.
///
/// # Safety
/// The word was cast from a function pointer of this type, or of one that is called in the same
/// way.
#[inline]
pub unsafe fn function_at<F: Function>(address: usize) -> F {
    assert_is_pointer::<F>();
    let address = core::ptr::with_exposed_provenance_mut::<c_void>(address);
    // SAFETY: the caller's promise.
    unsafe { transmute_copy::<*mut c_void, F>(&address) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn longer(text: &str) -> usize {
        text.len() + 1
    }

    extern "C" fn twice(number: u32) -> u32 {
        number * 2
    }

    extern "C" fn thrice(number: u32) -> u32 {
        number * 3
    }

    #[test]
    fn is_none_until_it_is_set_and_again_when_it_is_taken_away() {
        let function = AtomicFunction::<extern "C" fn(u32) -> u32>::none();
        assert!(function.get().is_none() && !function.is_set());
        assert!(function.set(Some(twice)).is_none());
        assert_eq!((function.get().unwrap()(21), function.is_set()), (42, true));
        assert_eq!(function.set(Some(thrice)).unwrap()(1), 2);
        assert_eq!(function.set(None).unwrap()(1), 3);
        assert!(function.get().is_none() && !function.is_set());
    }

    #[test]
    fn begins_with_a_function_and_takes_arguments_of_any_lifetime() {
        static LONGER: AtomicFunction<fn(&str) -> usize> = AtomicFunction::new(longer);
        let text = std::string::String::from("four");
        assert_eq!(LONGER.get().unwrap()(&text), 5);
    }

    #[test]
    fn is_a_pointer_variable_to_c() {
        type Number = extern "C" fn(u32) -> u32;
        let function = AtomicFunction::<Number>::new(twice);
        let variable = (&raw const function).cast::<Option<Number>>();
        // SAFETY: laid out as a pointer, and no other thread knows it.
        assert_eq!(unsafe { variable.read() }.unwrap()(3), 6);
        // SAFETY: the address of such a function.
        unsafe { function.set_address(thrice as Number as *mut c_void) };
        assert_eq!(function.get().unwrap()(3), 9);
        // SAFETY: as above.
        assert_eq!(unsafe { function_at::<Number>(twice as Number as usize) }(4), 8);
    }

    #[test]
    fn another_thread_gets_the_old_one_or_the_new() {
        static FUNCTION: AtomicFunction<extern "C" fn(u32) -> u32> = AtomicFunction::new(twice);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for turn in 0..10_000 {
                    FUNCTION.set(Some(if turn % 2 == 0 { thrice } else { twice }));
                }
            });
            for _ in 0..10_000 {
                assert!([2, 3].contains(&FUNCTION.get().unwrap()(1)));
            }
        });
    }
}

//! Stacks that the program makes and switches by itself.
//!
//! Invariant: `neap_stack *` is the core's handle; null is the thread's own stack. Create and
//! retire from any thread; switch by the thread that switches.

use core::ffi::c_void;

use neap_core::api::{self, StackHandle};

use crate::misuse::misuse;
use crate::status::{Status, set_errno};

#[unsafe(no_mangle)]
pub extern "C" fn neap_stack_create(low: *mut c_void, bytes: usize) -> StackHandle {
    let Some(high) = (low as usize).checked_add(bytes).filter(|_| !low.is_null() && bytes > 0)
    else {
        misuse(
            Status::BadArgument,
            format_args!(
                "neap_stack_create of {bytes} bytes at {low:p}: pass the stack's lowest address \
                 and its length"
            ),
        );
        set_errno(libc::EINVAL);
        return StackHandle::OWN;
    };
    let stack = api::stack_create(low as usize..high);
    if stack.is_own() {
        set_errno(libc::ENOMEM);
    }
    stack
}

#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn neap_stack_switch(to: StackHandle) {
    // SAFETY: neap.h asks for it.
    unsafe { api::stack_switch(to) };
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_stack_retire(stack: StackHandle) {
    // SAFETY: neap.h asks for it.
    unsafe { api::stack_retire(stack) };
}

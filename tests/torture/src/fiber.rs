//! Fibers: stacks of our own with slots on them, entered and left with `swapcontext`.
//!
//! Invariant: a fiber's slots are a place of its worker's graph from its first entry to its last;
//! it runs on the worker's thread only, and one at a time. What a suspended fiber keeps, its
//! declared stack keeps.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;

use crate::fail;
use crate::shadow::places::{Place, Slots, empty_slots};
use crate::worker::Worker;
use neap_core::api::{self, StackHandle};

const STACK_BYTES: usize = 256 << 10;

/// A fiber of a worker.
pub struct Fiber {
    stack: *mut c_void,
    handle: StackHandle,
    inside: Box<MaybeUninit<libc::ucontext_t>>,
    outside: Box<MaybeUninit<libc::ucontext_t>>,
    slots: *const Slots,
    /// The number of the place that its slots are.
    pub place: usize,
    task: Task,
}

/// What the fiber does when it is entered next.
#[derive(Clone, Copy)]
enum Task {
    Work(*mut Worker, u32),
    End,
}

extern "C" fn enter(low: u32, high: u32) {
    let fiber = ((high as usize) << 32 | low as usize) as *mut Fiber;
    let slots = empty_slots();
    // SAFETY: the fiber is boxed and lives until after `End`; who entered it waits in `switch_to`
    // meanwhile.
    unsafe {
        (*fiber).slots = &raw const slots;
        loop {
            leave(fiber);
            match (*fiber).task {
                Task::Work(worker, operations) => (*worker).graph_operations(operations),
                Task::End => break,
            }
        }
        core::hint::black_box(&slots);
        leave(fiber);
    }
    fail!("a fiber was entered after its end");
}

/// Back to the thread's own stack.
///
/// # Safety
/// Runs on the fiber's stack.
#[inline(never)]
unsafe fn leave(fiber: *mut Fiber) {
    // SAFETY: the caller's promise; the switch follows at once.
    unsafe {
        api::stack_switch(StackHandle::OWN);
        libc::swapcontext((*fiber).inside.as_mut_ptr(), (*fiber).outside.as_ptr());
    }
}

impl Fiber {
    /// A new fiber, entered once, so that its slots are there.
    pub fn new() -> Option<Box<Self>> {
        // SAFETY: maps new memory.
        let stack = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                STACK_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK,
                -1,
                0,
            )
        };
        if stack == libc::MAP_FAILED {
            return None;
        }
        let handle = api::stack_create(stack as usize..stack as usize + STACK_BYTES);
        if handle.is_own() {
            fail!("a stack was refused");
        }
        let mut fiber = Box::new(Self {
            stack,
            handle,
            inside: Box::new(MaybeUninit::zeroed()),
            outside: Box::new(MaybeUninit::zeroed()),
            slots: core::ptr::null(),
            place: usize::MAX,
            task: Task::End,
        });
        let address = &raw mut *fiber as usize;
        // SAFETY: the context is initialised before it is used; `enter` takes the two halves that
        // it is given.
        unsafe {
            let context = fiber.inside.as_mut_ptr();
            libc::getcontext(context);
            (*context).uc_stack.ss_sp = stack;
            (*context).uc_stack.ss_size = STACK_BYTES;
            (*context).uc_link = core::ptr::null_mut();
            let function: extern "C" fn(u32, u32) = enter;
            let function =
                core::mem::transmute::<extern "C" fn(u32, u32), extern "C" fn()>(function);
            libc::makecontext(
                context,
                function,
                2,
                address as u32 as c_int,
                (address >> 32) as c_int,
            );
        }
        fiber.switch_to();
        Some(fiber)
    }

    /// The place that its slots are.
    pub fn slots_as_place(&self) -> Place {
        // SAFETY: the slots are on the fiber's stack until it ends.
        Place::lent(unsafe { &*self.slots })
    }

    #[inline(never)]
    fn switch_to(&mut self) {
        // SAFETY: nobody else runs on it; the switch follows at once.
        unsafe {
            api::stack_switch(self.handle);
            libc::swapcontext(self.outside.as_mut_ptr(), self.inside.as_ptr());
        }
    }

    /// Has the fiber run operations of the worker on its stack.
    pub fn work(&mut self, worker: *mut Worker, operations: u32) {
        self.task = Task::Work(worker, operations);
        self.switch_to();
    }

    /// Ends it. Its place is out of the graph.
    #[allow(clippy::boxed_local)] // its context knows its address
    pub fn end(mut self: Box<Self>) {
        self.task = Task::End;
        self.switch_to();
        // SAFETY: nobody runs on it or will; mapped by `new`.
        unsafe {
            api::stack_retire(self.handle);
            libc::munmap(self.stack, STACK_BYTES);
        }
    }
}

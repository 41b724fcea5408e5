//! Finalizers, cleaners and reference queues: what is registered with an object, and who runs it
//! when the object has died.
//!
//! Invariant: `registrations` and `slab` keep registrations without a lock; `finalizer`, `cleaner`
//! and `queue` say what they mean; `batch`, `runner` and `pool` run what is ready. Registered by
//! mutators on any thread, processed by the cycle, run on threads of the pool or where the program
//! asks for it.

pub(crate) mod batch;
pub mod cleaner;
pub mod finalizer;
pub mod held_for_ever;
pub(crate) mod marked_at_registration;
pub(crate) mod order;
mod page_stack;
pub mod pool;
pub mod queue;
pub(crate) mod registrations;
pub mod runner;
pub(crate) mod site;
pub(crate) mod slab;

//! Handles: slots outside the heap that refer to objects, strongly, weakly or as ephemerons.
//!
//! Invariant: nothing here knows of finalizers, links or monitors. `process` is the part that knows
//! the process's heap and threads; what stands below it works on slots of any space, so that models
//! and tests can have their own. Called from any thread; the cycle's part by the cycle.

pub(crate) mod buckets;
pub mod domain;
pub(crate) mod ephemeron;
pub mod handle;
pub mod held;
pub mod per_thread;
pub mod process;
pub(crate) mod retargeted;
pub(crate) mod segment;
pub mod slot;
pub(crate) mod weak;

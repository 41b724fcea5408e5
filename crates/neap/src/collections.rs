//! Collections asked for, and what is known of the heap.
//!
//! Invariant: none; translates to the core. Called from any thread.

use std::time::Duration;

use neap_core::api;

/// A full collection, complete on return; false if collections are disabled. Under miri there are
/// none.
///
/// ```
/// assert!(neap::collect());
/// ```
pub fn collect() -> bool {
    cfg!(miri) || api::collect()
}

/// What is known of the heap and its cycles.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Statistics {
    /// Cycles so far, minor ones included.
    pub cycles: u64,
    /// Bytes of the objects that the last cycle found alive, Rust's own heap included.
    pub live_bytes: u64,
    /// Bytes that were allocated since the process began.
    pub allocated_bytes: u64,
    /// The longest time for which the whole program stood.
    pub longest_stop: Duration,
}

/// The figures now.
///
/// ```
/// let before = neap::statistics().cycles;
/// neap::collect();
/// assert!(neap::statistics().cycles > before);
/// ```
pub fn statistics() -> Statistics {
    let now = api::statistics();
    Statistics {
        cycles: now.cycles,
        live_bytes: now.live_bytes,
        allocated_bytes: now.allocated_bytes,
        longest_stop: Duration::from_nanos(now.pause_max_ns),
    }
}

/// Sets an option by its name, as the environment variable `NEAP_` with it would; the error says
/// what is wrong. Some must be set before the collector starts: in a Rust program that is before
/// `main`, so in the environment. `static_roots` is refused, since a `Gc` may lie in any static, as
/// is `past_end`, since the compiler may keep a pointer to an object's end alone.
///
/// ```
/// assert!(neap::set_option("growth", "2.0").is_ok());
/// assert!(neap::set_option("groth", "2.0").is_err());
/// assert!(neap::set_option("static_roots", "0").is_err());
/// assert!(neap::set_option("past_end", "0").is_err());
/// ```
pub fn set_option(name: &str, value: &str) -> Result<(), &'static str> {
    let is = |option: &str| name.replace('-', "_").eq_ignore_ascii_case(option);
    if is("static_roots") {
        return Err("the statics of a Rust program are always roots");
    }
    if is("past_end") {
        return Err("in a Rust program a pointer one past the end of an object always keeps it");
    }
    api::set_option(name.as_bytes(), value.as_bytes())
}

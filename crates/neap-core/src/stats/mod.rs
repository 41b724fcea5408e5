//! What is counted, by whom is said at each counter. Written by all layers, reads none.

pub mod assists;
pub mod events;
pub mod histogram;
pub mod live;
pub mod probes;
pub mod sampler;

/// Whether the library keeps statistics at all. `bench/variants/without-statistics` builds one that
/// does not, which is what "nothing is asked for" is compared with.
pub const KEPT: bool = true;

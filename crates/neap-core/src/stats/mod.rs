//! What is counted, by whom is said at each counter. Written by all layers, reads none.

pub mod assists;
pub mod events;
pub mod histogram;
pub mod live;
pub mod probes;
pub mod sampler;

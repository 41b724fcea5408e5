//! What the program writes into variables past their setters, handed to the core.
//!
//! Invariant: what the variables hold at first is the core's own policy, and is handed over by
//! nobody. Called by threads of the program, world running, outside collections.

use crate::collections::{incremental, pacing};
use crate::settings::variables;

/// Hands over what the program has written since. Where collections are decided about: as the
/// program starts the collector, before and after each collection.
pub fn carry_over() {
    variables::carry_over();
    pacing::carry_over();
    incremental::carry_over();
}

//! An attribute below the derive, which adds a field that the derive does not see.
use adds_field::adds_field;
use neap::{Gc, Trace};

#[derive(Trace)]
#[adds_field(hidden: Gc<u8>,)]
struct Changed {
    seen: u8,
}

fn main() {}

//! Memory that the collector does not see.
use neap::Gc;

#[global_allocator]
static SYSTEM: std::alloc::System = std::alloc::System;

fn main() {
    Gc::new(1);
}

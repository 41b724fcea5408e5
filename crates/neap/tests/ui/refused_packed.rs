//! The pointers would lie where the collector does not look.
use neap::Trace;

#[derive(Trace)]
#[repr(C, packed)]
struct Derived(u8, u64);

fn main() {}

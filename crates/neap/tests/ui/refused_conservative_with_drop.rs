//! The destructor of what is not looked into could follow a `Gc`.
use neap::{Gc, Trace};

#[derive(Trace)]
struct Opaque {
    #[trace(conservative)]
    content: Vec<Gc<u8>>,
}

fn main() {
    Gc::new(Opaque { content: Vec::new() });
}

//! The pointer would lie where the collector does not look, on a stack or in a `Box`.
use neap::Gc;

#[repr(C, packed)]
struct Plain(u8, Gc<u8>);

fn main() {
    Plain(1, Gc::new(2));
}

//! The object may outlive what it refers to.
use neap::Gc;

fn main() {
    let number = 1;
    Gc::new(&number);
}

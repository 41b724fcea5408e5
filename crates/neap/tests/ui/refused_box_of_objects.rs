//! The box's memory is not collected.
use neap::Gc;

fn main() {
    Gc::new(Box::new(Gc::new(1)));
}

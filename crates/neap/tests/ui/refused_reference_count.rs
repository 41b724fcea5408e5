//! `Rc` counts without atomics: it must not be dropped by another thread.
use neap::Gc;
use std::rc::Rc;

fn main() {
    Gc::new(Rc::new(1));
}

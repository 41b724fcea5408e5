//! Threads would write to one cell.
use neap::Gc;
use std::cell::Cell;

fn main() {
    let object = Gc::new(Cell::new(1));
    std::thread::spawn(move || object.set(2));
}

//! The Lisp on `Rc`, with the system's malloc. Where it lets go of a long list, that is by
//! recursion.

use std::rc::Rc as Pointer;

macro_rules! objects {
    ($($object:item)*) => { $($object)* };
}

mod interpreter;

use interpreter::run;
use neap_bench_rust::on_a_large_stack;

fn new<T>(value: T) -> Pointer<T> {
    Pointer::new(value)
}

/// The value, used up: moved out where nobody else has it.
fn take<T: Clone>(pointer: Pointer<T>) -> T {
    Pointer::unwrap_or_clone(pointer)
}

/// What `ptr_eq` takes.
fn is<T>(pointer: &Pointer<T>) -> &Pointer<T> {
    pointer
}

fn main() {
    on_a_large_stack(|| run().print(None));
}

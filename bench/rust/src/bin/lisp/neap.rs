//! The Lisp on Neap.

// A `Gc` is copied; the text is that of a Lisp whose pointers are not.
#![allow(clippy::clone_on_copy)]

use neap::{Gc as Pointer, Trace};

macro_rules! objects {
    ($($object:item)*) => { $(#[derive(neap::Trace)] $object)* };
}

mod interpreter;

use interpreter::run;
use neap_bench_rust::on_a_large_stack;

fn new<T: Trace>(value: T) -> Pointer<T> {
    Pointer::new(value)
}

/// The value, used up.
fn take<T: Clone>(pointer: Pointer<T>) -> T {
    (*pointer).clone()
}

/// What `ptr_eq` takes.
fn is<T>(pointer: &Pointer<T>) -> Pointer<T> {
    *pointer
}

fn main() {
    on_a_large_stack(|| run().print(Some(neap::statistics().longest_stop)));
}

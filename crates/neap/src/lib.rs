//! A garbage collector for Rust programs: [`Gc<T>`](Gc) is copied like a pointer, needs no rooting
//! and no write barrier, may be shared between threads, and its objects are freed when nothing
//! leads to them, cycles included. The collector runs beside the program.
//!
//! ```
//! use neap::{Gc, Trace};
//! use std::cell::Cell;
//!
//! #[derive(Trace)]
//! struct Person {
//!     name: String,
//!     friend: Cell<Option<Gc<Person>>>,
//! }
//!
//! let ada = Gc::new(Person { name: "Ada".into(), friend: Cell::new(None) });
//! let bob = Gc::new(Person { name: "Bob".into(), friend: Cell::new(Some(ada)) });
//! ada.friend.set(Some(bob)); // a cycle, and nothing to take care of
//! assert_eq!(ada.friend.get().unwrap().name, "Bob");
//! ```
//!
//! # What it asks of a program
//!
//! - Linux on x86-64 with glibc. The crate declares the program's global allocator: boxes, vectors
//!   and the like live where the collector reads, so a `Gc` may lie in any of them. A program with
//!   another `#[global_allocator]` does not compile.
//! - What is part of a collected object implements [`Trace`], which is derived. Containers of the
//!   standard library may be part of one as long as they hold no `Gc` ([`NoGc`]): their memory is
//!   not collected. [`Vec`], [`VecDeque`], [`HashMap`], [`BTreeMap`],
//!   [`String`] and `Gc<[T]>` are.
//! - A destructor runs on a thread of the collector, some time after its object has become
//!   unreachable, and may not follow a `Gc`: the compiler checks that.
//!
//! `docs/rust-soundness.md` in the repository says why that is sound, and what it does not cover.

#![deny(unsafe_code)]

#[cfg(not(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")))]
compile_error!("neap runs on Linux on x86-64 with glibc");

extern crate self as neap;

mod atomic;
mod collections;
mod containers;
mod finalizer;
mod gc;
#[cfg(not(miri))]
mod interposed;
mod memory;
pub mod mutator;
mod slices;
mod types;
mod weak;

pub use atomic::AtomicGc;
pub use collections::{Statistics, collect, set_option, statistics};
pub use containers::{BTreeMap, HashMap, String, Vec, VecDeque, WeakMap};
pub use finalizer::run_finalizers;
pub use gc::Gc;
pub use memory::allocator::{Allocator, skip_small_alignment};
pub use neap_derive::Trace;
pub use types::shape::Shape;
pub use types::trace::{NoGc, Trace};
pub use weak::Weak;

/// For what `#[derive(Trace)]` writes.
#[doc(hidden)]
pub mod __private {
    pub use crate::types::shape::{Field, Form, type_of};
}

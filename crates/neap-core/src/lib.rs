//! Neap's core: the heap, allocation, marking, the stopped world and the cycle that joins them.
//!
//! For a newcomer, bottom up: [`addr`] and [`sync`] are the words everything is said in; [`sys`] is
//! every system call; [`heap`] is memory and its metadata; [`alloc`] hands it out; [`mark`] finds
//! what is reachable; [`world`] knows the program's threads and roots; [`refs`] processes
//! finalizers and links; [`cycle`] drives a collection; [`probe`] says what the machine allows;
//! [`runtime`] wires it all up; [`api`] is what front ends see. `LAYERS` says who may import whom.

#![cfg_attr(not(any(test, miri, loom, debug_assertions)), no_std)]
#![deny(unsafe_code)]

extern crate alloc as rust_alloc;

mod addr;
mod alloc;
pub mod api;
mod check;
mod cycle;
mod heap;
mod mark;
mod monitors;
mod observe;
pub mod options;
pub mod probe;
mod rank;
mod refs;
mod runtime;
mod stats;
mod sync;
mod sys;
mod watch;
mod world;

//! `libgc.so.1` on Neap: the ABI of Boehm's collector 8.2 with its documented meaning. One file per
//! area of `gc.h`.
//!
//! Nothing here collects: every function translates to `neap_core::api`. Invariant: the symbols
//! this library exports are those of `symbols.txt`, checked by `tests/bdw`. Functions are called
//! from any thread of the program; what runs while the world is stopped (mark procedures, root
//! callbacks, the `push` functions) allocates nothing and takes no lock.
//!
//! # Safety
//!
//! Exported functions are declared safe because C calls them: what `gc.h` asks of their arguments
//! is what the `SAFETY` comments cite. Addresses of the program's objects are passed on to
//! `core_api`, and read here only where `gc.h` says that they are valid.

#![cfg_attr(feature = "lean", no_std)]
#![allow(unsafe_code, non_upper_case_globals, non_snake_case, non_camel_case_types)]

extern crate alloc as rust_alloc;

mod alloc;
mod collections;
mod core_api;
mod debugging;
mod failure;
mod interposed;
mod kinds;
mod lock;
mod old_names;
mod pointers;
mod references;
mod roots;
mod settings;
mod start;
mod strings;
mod suspension;
mod threads;
mod unsupported;

/// The library's own memory never comes from the program's malloc, which may be what we are called
/// from.
#[global_allocator]
static ALLOCATOR: neap_core::api::MetaAllocator = neap_core::api::MetaAllocator;

#[cfg(feature = "lean")]
neap_core::api::without_standard_library!();

//! `libgc.so.1` on Neap: the ABI of Boehm's collector 8.2 with its documented meaning. One file per
//! area of `gc.h`.
//!
//! Nothing here collects: every function translates to `neap_core::api`. Invariant: the symbols
//! this library exports are those of `symbols.txt`, checked by `tests/bdw`. Functions are called
//! from any thread of the program; what runs while the world is stopped (mark procedures, root
//! callbacks, the `push` functions) allocates nothing and takes no lock.
//!
//! Exported functions are declared safe because C calls them: what `gc.h` asks of their arguments
//! is what the `SAFETY` comments cite.
//!
//! # Safety
//!
//! Exported functions are declared safe because C calls them: what `gc.h` asks of their arguments
//! is what the `SAFETY` comments cite. Addresses of the program's objects are passed on to
//! `core_api`, and read here only where `gc.h` says that they are valid.

#![allow(unsafe_code, non_upper_case_globals, non_snake_case, non_camel_case_types)]

mod alloc;
mod apply_environment;
mod collect;
mod core_api;
mod debug;
mod debug_header;
mod descriptors;
mod disclaim;
mod environment;
mod events;
mod failure;
mod finalize;
mod finalized_malloc;
mod gcj;
mod helpers;
mod incremental;
mod kernel_writes;
mod kinds;
mod links;
mod lock;
mod mark_procs;
mod masks;
mod pointers;
mod printing;
mod roots;
mod settings;
mod signals;
mod start;
mod statistics;
mod thread_results;
mod threads;
mod toggle;
mod typed;
mod unsupported;
mod variables;
mod waits;
mod walk;
mod world_stopped;

/// The library's own memory never comes from the program's malloc, which may be what we are called
/// from.
#[global_allocator]
static ALLOCATOR: neap_core::api::MetaAllocator = neap_core::api::MetaAllocator;

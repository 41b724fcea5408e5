//! `libneap`: the C interface that `neap.h` declares and documents. One file per part of the
//! header.
//!
//! Nothing here collects: every function checks what it is given, says what is wrong with it, and
//! translates to `neap_core::api`. Invariant: no function panics, and none takes a lock that a
//! callback of the program could meet again. Functions are called from any thread of the program.
//!
//! # Safety
//! Exported functions are declared safe because C calls them: what `neap.h` asks of their arguments
//! is what the `SAFETY` comments cite.

#![cfg_attr(feature = "lean", no_std)]
#![allow(unsafe_code)]

extern crate alloc as rust_alloc;

mod alloc;
mod control;
mod inline;
#[cfg(all(feature = "interpose", not(test)))]
mod interposed;
mod layouts;
mod misuse;
mod monitors;
mod object_check;
mod objects;
mod observe;
mod prefork;
mod references;
mod status;
mod world;

/// The library's own memory never comes from the program's malloc, which may be what we are called
/// from.
#[global_allocator]
static ALLOCATOR: neap_core::api::MetaAllocator = neap_core::api::MetaAllocator;

#[cfg(feature = "lean")]
neap_core::api::without_standard_library!();

/// Run by the dynamic loader before the program's constructors; the number puts it first among
/// those of a program that libneap.a is part of.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array.00000")]
static ON_LOAD: extern "C" fn() = on_load;

#[cfg_attr(test, allow(dead_code))]
extern "C" fn on_load() {
    neap_core::api::on_load();
    #[cfg(all(feature = "interpose", not(test)))]
    interposed::kernel_writes::find();
    neap_core::api::process_memory::find();
    inline::on_load();
    references::finalizers::on_load();
    monitors::on_load();
    observe::on_load();
}

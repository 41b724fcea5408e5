//! Ephemerons: a node's pairs, whose key is the node and whose values are others.
//!
//! Invariant: a pair gives the node and the value that the shadow knows as long as the node can be
//! reached; a value that nothing else keeps lives as long as the node. When the node is gone, so is
//! the pair. Used by who holds the graph.

use crate::ensure;
use crate::shadow::node::Edge;
use neap_core::api::handles::{self, DomainId, Handle};

/// One pair; its key is the node that it belongs to.
pub struct Pair {
    handle: Handle,
    /// The value, by its start.
    pub value: Option<Edge>,
}

impl Pair {
    /// A pair without a value.
    pub fn new(key: usize) -> Self {
        let made =
            handles::allocate_ephemeron(DomainId::DEFAULT, key as *const _, core::ptr::null());
        match made {
            Ok(handle) => Self { handle, value: None },
            Err(error) => crate::fail!("no ephemeron for {key:#x}: {error:?}"),
        }
    }

    /// Key and value.
    #[inline(never)]
    pub fn get(&self) -> (usize, usize) {
        match handles::get_ephemeron(self.handle) {
            Ok((key, value)) => (key as usize, value as usize),
            Err(error) => {
                crate::fail!("lost: the ephemeron {:x?} is forgotten: {error:?}", self.handle)
            }
        }
    }

    /// Another value; the key is alive.
    pub fn set(&self, value: usize) {
        let (_, held) = self.get();
        let set = match value / 8 % 2 {
            0 => handles::set_ephemeron(self.handle, value as *const _),
            _ => {
                handles::compare_and_set_ephemeron(self.handle, held as *const _, value as *const _)
            }
        };
        ensure!(set == Ok(true), "lost: the ephemeron {:x?} was not set: {set:?}", self.handle);
    }

    /// Frees it.
    pub fn free(self) {
        crate::referrers::handles::free(self.handle);
    }
}

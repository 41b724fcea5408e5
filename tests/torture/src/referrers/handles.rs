//! Handles of the shadow's objects: weak ones that tell of an object's death, and slots for roots
//! that are strong handles.
//!
//! Invariant: a handle gives its object as long as the shadow can reach it; what a weak one gives
//! is alive and whole, reachable or not. A handle that was freed, or whose domain was closed, is
//! known as stale. Used by who holds the graph.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::options::{self, Sabotage};
use crate::shadow::node::Node;
use crate::{ensure, fail};
use neap_core::api::handles::{self, DomainId, Error, Handle, HandleError, HandleKind};

/// A weak handle.
#[derive(Clone, Copy, Debug)]
pub struct Weak {
    handle: Handle,
    /// Whether it tracks resurrection.
    pub long: bool,
}

const STALE: Error = Error::Handle(HandleError::Stale);

/// A handle; fails if there is none to be had.
pub fn allocate(domain: DomainId, kind: HandleKind, object: usize) -> Handle {
    handles::allocate(domain, kind, object as *const _)
        .unwrap_or_else(|error| fail!("no {kind:?} handle to {object:#x}: {error:?}"))
}

/// What a handle gives.
pub fn get(handle: Handle) -> usize {
    match handles::get(handle) {
        Ok(object) => object as usize,
        Err(error) => fail!("lost: {handle:x?} is forgotten: {error:?}"),
    }
}

/// Frees it, and sees that it is gone.
pub fn free(handle: Handle) {
    let freed = handles::free(handle);
    ensure!(freed.is_ok(), "lost: {handle:x?} is forgotten: {freed:?}");
    ensure_stale(handle);
}

fn ensure_stale(handle: Handle) {
    let (found, again) = (handles::get(handle), handles::free(handle));
    ensure!(
        found == Err(STALE) && again == Err(STALE),
        "stale: {handle:x?} was freed, and gives {found:x?}, {again:?}"
    );
}

/// Gives the node a weak handle.
pub fn add_weak(node: &mut Node, random: &mut fastrand::Rng) {
    let long = random.bool();
    let kind = if long { HandleKind::WeakLong } else { HandleKind::Weak };
    let handle = allocate(DomainId::DEFAULT, kind, node.address.reveal());
    node.weak = Some(Weak { handle, long });
}

impl Weak {
    /// The object, or 0.
    #[inline(never)]
    pub fn get(self) -> usize {
        get(self.handle)
    }

    /// Makes it refer to another object, or (0) to none.
    pub fn set(self, object: usize) {
        let set = handles::set(self.handle, object as *const _);
        ensure!(set.is_ok(), "lost: {self:x?} is forgotten: {set:?}");
    }

    /// Frees it.
    pub fn free(self) {
        let kind = if self.long { HandleKind::WeakLong } else { HandleKind::Weak };
        ensure!(handles::kind(self.handle) == Ok(kind), "{self:x?} is of another kind");
        free(self.handle);
    }
}

/// Slots that are strong handles, of a domain of their own or of the one that is always there.
pub struct StrongSlots {
    domain: DomainId,
    handles: Vec<AtomicU64>,
}

impl StrongSlots {
    /// So many, all of them null.
    pub fn new(count: usize, own_domain: bool) -> Option<Self> {
        let domain = if own_domain { handles::open_domain()? } else { DomainId::DEFAULT };
        let handles = (0..count).map(|slot| AtomicU64::new(strong(domain, slot, 0).0)).collect();
        Some(Self { domain, handles })
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.handles.len()
    }

    fn handle(&self, slot: usize) -> Handle {
        Handle(self.handles[slot].load(Relaxed))
    }

    /// The object of a slot, or 0.
    pub fn read(&self, slot: usize) -> usize {
        get(self.handle(slot))
    }

    /// Has a slot refer to another object, or (0) to none, in one of the ways there are.
    pub fn write(&self, slot: usize, object: usize) {
        let handle = self.handle(slot);
        let done = match (slot + object / 8) % 3 {
            0 => handles::set(handle, object as *const _).map(|()| true),
            1 => handles::compare_and_set(handle, get(handle) as *const _, object as *const _),
            _ => {
                let new = strong(self.domain, slot, object);
                ensure!(new != handle, "{new:x?} was given twice");
                free(handle);
                self.handles[slot].store(new.0, Relaxed);
                Ok(true)
            }
        };
        ensure!(done == Ok(true), "lost: {handle:x?} is forgotten: {done:?}");
    }

    /// Frees all.
    pub fn give_back(&self) {
        if self.domain == DomainId::DEFAULT {
            (0..self.count()).for_each(|slot| free(self.handle(slot)));
            return;
        }
        let closed = handles::close_domain(self.domain);
        ensure!(
            closed == Some(self.count()),
            "a domain with {} handles was closed: {closed:?}",
            self.count()
        );
        (0..self.count()).for_each(|slot| ensure_stale(self.handle(slot)));
    }
}

/// A handle that is a root: strong, or pinned, which is the same.
fn strong(domain: DomainId, slot: usize, object: usize) -> Handle {
    let kind = match slot % 2 {
        _ if options::get().sabotages(Sabotage::Weak) => HandleKind::Weak,
        0 => HandleKind::Strong,
        _ => HandleKind::Pinned,
    };
    allocate(domain, kind, object)
}

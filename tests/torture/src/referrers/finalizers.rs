//! Finalizers of the shadow's objects, and disappearing links.
//!
//! Invariant: a finalizer runs at most once, finds its object's contents as they were, and takes no
//! lock. It runs on whatever thread asks for ready finalizers, and while its object can be reached
//! only where all were made ready (`all_ready`).

use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};
use std::sync::Arc;

use super::all_ready;
use crate::shadow::hidden::pattern;
use crate::shadow::node::Node;
use crate::{ensure, fail, options};
use neap_core::api::{self, Finalizer, Order, finalizer, link};

/// What a finalizer knows of its object.
pub struct Record {
    id: u64,
    /// Words of the object that hold pattern for its whole life.
    words: Vec<usize>,
    run: AtomicU32,
}

impl Record {
    /// How often it ran.
    pub fn times_run(&self) -> u32 {
        self.run.load(Acquire)
    }
}

unsafe extern "C" fn run(object: *mut c_void, data: *mut c_void) {
    // SAFETY: `register` made it of an Arc, and each registration runs once.
    let record = unsafe { Arc::from_raw(data.cast::<Record>()) };
    let known = api::object_at(object as usize).map(|info| info.start.as_ptr());
    ensure!(
        known == Some(object.cast()),
        "lost: the object {} is not there, and its finalizer runs",
        record.id
    );
    for &index in &record.words {
        // SAFETY: the object is kept for its finalizer, with at least that many words.
        let found = unsafe { object.cast::<usize>().add(index).read_volatile() };
        let wanted = pattern(options::get().seed, record.id, index);
        ensure!(
            found == wanted,
            "stale contents: the finalizer of object {} found {found:#x} in word {index}, not \
             {wanted:#x}",
            record.id
        );
    }
    let before = record.run.fetch_add(1, AcqRel);
    ensure!(before == 0, "the finalizer of object {} ran {} times", record.id, before + 1);
}

/// Gives the node a finalizer. What points to others is finalized in no order; the rest in any of
/// the orders.
pub fn register(node: &mut Node, random: &mut fastrand::Rng) {
    let words: Vec<usize> =
        (0..node.bytes / 8).filter(|index| node.is_pattern(*index)).take(4).collect();
    let record = Arc::new(Record { id: node.id, words, run: AtomicU32::new(0) });
    // An object in a cycle would wait for ever in the orders that heed pointers.
    let order = match (node.slots.is_empty(), random.u32(0..4)) {
        (true, 0) => Order::Topological,
        (true, 1) => Order::IgnoreSelf,
        (true, 2) => Order::Unreachable,
        _ => Order::NoOrder,
    };
    let data = Arc::into_raw(record.clone()).cast_mut().cast();
    match finalizer::set(node.address.reveal(), Some(Finalizer { function: run, data, order })) {
        Ok(None) => node.finalizer = Some(record),
        Ok(Some(_)) => fail!("the new {} had a finalizer already", node.describe()),
        // SAFETY: nobody took it.
        Err(_) => drop(unsafe { Arc::from_raw(data.cast_const().cast::<Record>()) }),
    }
}

/// The sort of link that an object has if it has one: half of them short, half long.
pub fn link_length(node: &Node) -> link::Length {
    if node.id.is_multiple_of(2) { link::Length::Long } else { link::Length::Short }
}

/// Gives the node a disappearing link.
pub fn add_link(node: &mut Node) {
    let word = Box::new(AtomicUsize::new(!node.address.reveal()));
    let address = word.as_ptr() as usize;
    // SAFETY: the box stays until `unregister`, or until the link was cleared.
    match unsafe { link::register(link_length(node), address, node.address.reveal()) } {
        Ok(link::Registration::New) => node.link = Some(word),
        Ok(link::Registration::Updated) => fail!("a new link was registered already"),
        Err(_) => {}
    }
}

/// Takes link and finalizer back from an object that is alive and about to be freed or moved.
/// False: its finalizer is ready, since all were made so, and does not come to run: the object
/// stays.
#[must_use]
pub fn unregister(node: &mut Node) -> bool {
    let length = link_length(node);
    if let Some(word) = node.link.take() {
        let known = link::unregister(length, word.as_ptr() as usize);
        ensure!(known, "lost: the link of {} is forgotten", node.describe());
    }
    if let Some(record) = node.finalizer.take() {
        match finalizer::set(node.address.reveal(), None) {
            // SAFETY: `register` made it so.
            Ok(Some(old)) => drop(unsafe { Arc::from_raw(old.data.cast_const().cast::<Record>()) }),
            Ok(None) if all_ready::were() => {
                let has_run = all_ready::wait(|| record.times_run() == 1);
                node.finalizer = (!has_run).then_some(record);
                return has_run;
            }
            _ => fail!(
                "lost: the finalizer of {} is forgotten (it ran {} times)",
                node.describe(),
                record.times_run()
            ),
        }
    }
    true
}

/// Forgets the link of an object that may be dead: the word's memory is about to go.
pub fn drop_link(node: &mut Node) {
    let length = link_length(node);
    if let Some(word) = node.link.take() {
        link::unregister(length, word.as_ptr() as usize);
    }
}

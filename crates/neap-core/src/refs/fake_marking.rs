//! A marker over a graph of small numbers, for the unit tests of `refs`: obviously right, and slow.
//! Single-threaded.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::ffi::c_void;
use std::sync::Mutex;

use super::finalizers::finalizer::{Finalizer, Order};
use super::finalizers::slab::Own;
use super::{Marking, Refs};

/// A value that lives as long as the process, and is reachable from a static all the while: no
/// leak.
pub(crate) fn for_ever<T: Sync>(value: T) -> &'static T {
    static ALL: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    let value: &'static T = Box::leak(Box::new(value));
    ALL.lock().unwrap().push(core::ptr::from_ref(value) as usize);
    value
}

/// The calling test's own slab of registrations.
pub(crate) fn own() -> &'static Own {
    std::thread_local! {
        static OWN: &'static Own = for_ever(Own::new(0));
    }
    OWN.with(|own| *own)
}

/// Objects are numbers; an address inside one is given by `place`.
pub(crate) struct FakeMarking {
    edges: HashMap<usize, Vec<usize>>,
    marked: HashSet<usize>,
    pending: Vec<usize>,
    containers: HashMap<usize, usize>,
    gone: HashSet<usize>,
    /// Values that are marked with their keys.
    by_keys: HashMap<usize, Vec<usize>>,
    /// There is no memory for that.
    pub(crate) refuses_keys: bool,
    /// How often it was asked whether an object is marked.
    pub(crate) asked: Cell<usize>,
    /// Called for each object that is marked: what the program does meanwhile.
    meanwhile: Box<dyn Fn()>,
}

pub(crate) fn finalizer(order: Order, data: usize) -> Finalizer {
    unsafe extern "C" fn nothing(_object: *mut c_void, _data: *mut c_void) {}
    Finalizer { function: nothing, data: data as *mut c_void, order }
}

impl FakeMarking {
    pub(crate) fn new(edges: &[(usize, usize)]) -> Self {
        let mut map: HashMap<usize, Vec<usize>> = HashMap::new();
        for &(from, to) in edges {
            map.entry(from).or_default().push(to);
        }
        Self {
            edges: map,
            marked: HashSet::new(),
            pending: Vec::new(),
            containers: HashMap::new(),
            gone: HashSet::new(),
            by_keys: HashMap::new(),
            refuses_keys: false,
            asked: Cell::new(0),
            meanwhile: Box::new(|| ()),
        }
    }

    /// The address lies in the object.
    pub(crate) fn place(&mut self, address: usize, object: usize) {
        self.containers.insert(address, object);
    }

    /// The object was freed: marking it does nothing.
    pub(crate) fn free(&mut self, object: usize) {
        self.gone.insert(object);
    }

    /// The program does this while objects are marked.
    pub(crate) fn meanwhile(&mut self, does: impl Fn() + 'static) {
        self.meanwhile = Box::new(does);
    }

    /// Registries want addresses that are multiples of 8: there an object's number stands in the
    /// upper half.
    fn number(word: usize) -> usize {
        if word >> 32 == 0 { word } else { word >> 32 }
    }

    /// One cycle's part of `refs`.
    pub(crate) fn run(&mut self, refs: &Refs, roots: &[usize]) {
        refs.begin_cycle(true);
        for &root in roots {
            self.mark(root);
        }
        refs.trace_roots(self);
        refs.trace_registered(self);
        refs.process_references(self);
    }

    pub(crate) fn is_marked_now(&self, object: usize) -> bool {
        self.marked.contains(&object)
    }

    fn push_targets(&mut self, object: usize, except: Option<usize>) {
        for &target in self.edges.get(&object).map_or(&[][..], Vec::as_slice) {
            if Some(target) != except {
                self.pending.push(target);
            }
        }
    }
}

impl Marking for FakeMarking {
    fn is_marked(&self, object: usize) -> bool {
        assert!(self.pending.is_empty(), "asked before draining");
        self.asked.set(self.asked.get() + 1);
        self.marked.contains(&Self::number(object))
    }
    fn mark(&mut self, object: usize) {
        self.pending.push(Self::number(object));
    }
    fn mark_word(&mut self, word: usize) {
        if word != 0 {
            self.pending.push(Self::number(word));
        }
    }
    fn mark_contents(&mut self, object: usize) {
        self.push_targets(Self::number(object), None);
    }
    fn mark_contents_except_self(&mut self, object: usize) {
        self.push_targets(Self::number(object), Some(Self::number(object)));
    }
    fn mark_alone(&mut self, object: usize) {
        self.marked.insert(Self::number(object));
    }
    fn drain(&mut self) {
        while let Some(object) = self.pending.pop() {
            (self.meanwhile)();
            if !self.gone.contains(&object) && self.marked.insert(object) {
                self.push_targets(object, None);
                self.pending.extend(self.by_keys.remove(&object).unwrap_or_default());
            }
        }
    }
    fn mark_by_keys(&mut self, pairs: &mut dyn Iterator<Item = (usize, usize)>) -> bool {
        if self.refuses_keys {
            return false;
        }
        for (key, value) in pairs {
            match self.marked.contains(&Self::number(key)) {
                true => self.mark(value),
                false => self.by_keys.entry(Self::number(key)).or_default().push(value),
            }
        }
        self.drain();
        self.by_keys.clear();
        true
    }
    fn container(&self, address: usize) -> Option<usize> {
        self.containers.get(&address).copied()
    }
}

//! What may be derived: generics, enums, destructors that follow no `Gc`, types that contain
//! themselves.
#![forbid(unsafe_op_in_unsafe_fn)]

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use neap::{Gc, Trace, Weak};

#[derive(Trace)]
struct Unit;

#[derive(Trace)]
struct Tuple<T>(T, [Gc<T>; 3], Option<Gc<Tuple<T>>>)
where
    T: Clone;

#[derive(Trace, Clone, Copy)]
enum Value {
    Nil,
    Number(f64),
    Pair(Gc<(Value, Value)>),
    Named { name: Gc<str>, value: Gc<Value> },
}

#[derive(Trace)]
#[trace(no_gc)]
struct Tree {
    children: Vec<Tree>,
    next: Option<Box<Tree>>,
}

#[derive(Trace)]
#[trace(no_gc)]
struct List {
    next: Option<Box<Self>>,
}

#[derive(Trace)]
#[trace(drop)]
struct Log<T>
where
    Self: Clone,
{
    entries: Vec<T>,
    later: Option<Box<Self>>,
}
impl<T: Clone> Clone for Log<T> {
    fn clone(&self) -> Self {
        Self { entries: self.entries.clone(), later: self.later.clone() }
    }
}
impl<T> Drop for Log<T>
where
    Self: Clone,
{
    fn drop(&mut self) {
        self.entries.clear();
    }
}

struct State;

/// Functions that take references, of which the trait itself cannot say anything.
#[derive(Trace)]
struct Handler {
    run: fn(&mut State, &str) -> u8,
    find: for<'a> unsafe fn(&'a State) -> &'a u8,
    done: Option<unsafe extern "C" fn(*mut u8)>,
    many: [extern "C" fn(u8, u8, u8, u8, u8, u8); 2],
    #[trace(conservative)]
    other: Option<fn(&State)>,
}

/// What the derived code called traits of its own.
#[derive(Trace)]
#[trace(drop)]
struct IsSend;
impl Drop for IsSend {
    fn drop(&mut self) {}
}
#[derive(Trace)]
#[trace(no_gc)]
struct FieldsLeadToNoObject(IsSend);

#[derive(Trace)]
#[trace(drop)]
struct OnDrop(fn(&mut State), Told);
#[derive(Trace)]
struct Told(fn(&Told));
impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0(&mut State);
    }
}

/// Conditions of its own, instead of one on each parameter.
#[derive(Trace)]
#[trace(bound = "")]
struct Link<T: ?Sized>(Gc<T>, std::marker::PhantomData<T>);

trait Family {
    type Member;
}
struct Numbers;
impl Family for Numbers {
    type Member = u64;
}

#[derive(Trace)]
#[trace(bound = "F::Member: Trace")]
struct Home<F: Family>(F::Member);

#[derive(Trace)]
#[trace(drop, bound = "F: Send, F::Member: neap::NoGc + Send + Trace")]
struct Temporary<F: Family>(Vec<F::Member>, std::marker::PhantomData<F>);
impl<F: Family> Drop for Temporary<F> {
    fn drop(&mut self) {
        self.0.clear();
    }
}

#[derive(Trace)]
#[trace(drop)]
struct File<T> {
    name: String,
    shared: Arc<Mutex<HashMap<String, T>>>,
}
impl<T> Drop for File<T> {
    fn drop(&mut self) {
        self.name.clear();
    }
}

#[derive(Trace)]
struct Owner<T, const COUNT: usize> {
    file: File<u8>,
    parent: Weak<Owner<T, COUNT>>,
    child: RefCell<Option<Gc<Owner<T, COUNT>>>>,
    values: [Cell<Value>; COUNT],
    #[trace(conservative)]
    opaque: std::mem::MaybeUninit<[*const u8; 2]>,
    own: T,
}

fn needs_no_gc<T: neap::NoGc>() {}

fn main() {
    Gc::new(Unit);
    Gc::new(Tuple(1, [Gc::new(2); 3], None));
    let name = "x".into();
    let pair = Value::Pair(Gc::new((Value::Nil, Value::Number(1.0))));
    Gc::new(Value::Named { name, value: Gc::new(pair) });
    Gc::new(Tree { children: Vec::new(), next: None });
    Gc::new(List { next: None });
    Gc::new(Link(Gc::<str>::from("x"), std::marker::PhantomData));
    Gc::new(Home::<Numbers>(1));
    Gc::new(Temporary::<Numbers>(vec![1], std::marker::PhantomData));
    needs_no_gc::<Home<Numbers>>();
    needs_no_gc::<Temporary<Numbers>>();
    Gc::new(Log { entries: vec![1], later: None });
    needs_no_gc::<OnDrop>();
    needs_no_gc::<FieldsLeadToNoObject>();
    needs_no_gc::<Tree>();
    needs_no_gc::<List>();
    needs_no_gc::<Log<u8>>();
    needs_no_gc::<File<u64>>();
    needs_no_gc::<Unit>();
    Gc::new_cyclic(|own| Owner {
        file: File { name: String::new(), shared: Arc::default() },
        parent: own.clone(),
        child: RefCell::new(None),
        values: [Cell::new(Value::Nil)],
        opaque: std::mem::MaybeUninit::uninit(),
        own: 5_u32,
    });
}

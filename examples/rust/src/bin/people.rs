//! Two people who know each other: the program that docs/rust.md begins with. Invariant: friends
//! know each other both ways.

use neap::{Gc, Trace};
use std::cell::Cell;

#[derive(Trace)]
struct Person {
    name: String,
    friend: Cell<Option<Gc<Person>>>,
}

fn main() {
    let ada = Gc::new(Person { name: "Ada".into(), friend: Cell::new(None) });
    let bob = Gc::new(Person { name: "Bob".into(), friend: Cell::new(Some(ada)) });
    ada.friend.set(Some(bob)); // a cycle, and nothing to take care of
    println!("{} knows {}", ada.name, ada.friend.get().unwrap().name);
}

//! The world: the program's threads, how they are stopped, and where their roots are.
//!
//! Invariant `[world.inv.stopped]`: a [`Stopped`] exists only while every mutator but the one that holds it is stopped outside any critical section, or is in a blocked
//! region. Functions that need that take `&Stopped`.

pub mod attach;
pub mod blocked;
pub mod critical;
pub mod current;
pub mod mutator;
pub mod registry;
pub mod roots;
pub mod stacks;
pub mod stop;

use core::marker::PhantomData;

/// The world is stopped for as long as this exists. Only [`stop::stop`] makes one, and [`stop::resume`] takes it.
pub struct Stopped(PhantomData<*const ()>);

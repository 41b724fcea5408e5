//! A destructor that must run on the thread that made the value.
use neap::Trace;
use std::marker::PhantomData;

#[derive(Trace)]
#[trace(drop)]
struct Guard(PhantomData<*const u8>);

impl Drop for Guard {
    fn drop(&mut self) {}
}

fn main() {}

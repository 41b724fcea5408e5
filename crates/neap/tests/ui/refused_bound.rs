//! Conditions of a type's own that its fields need more than, and what is no condition.
use neap::Trace;

#[derive(Trace)]
#[trace(bound = "")]
struct Holds<T>(T);

#[derive(Trace)]
#[trace(drop, bound = "T: Trace + Send")]
struct Drops<T>(T);
impl<T> Drop for Drops<T> {
    fn drop(&mut self) {}
}

#[derive(Trace)]
#[trace(bound = "T")]
struct Wrong<T>(T);

#[derive(Trace)]
#[trace(bound)]
struct Empty<T>(T);

fn main() {}

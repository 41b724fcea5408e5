//! An object may outlive what it borrows.
use neap::Trace;

#[derive(Trace)]
struct Borrows<'a> {
    text: &'a str,
}

fn main() {}

//! A misspelt attribute is not passed over.
use neap::Trace;

#[derive(Trace)]
#[trace(leaf)]
struct Unknown {
    #[trace(skip)]
    field: u8,
}

fn main() {}

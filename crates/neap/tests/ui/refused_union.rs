//! Nobody knows which field is in force.
use neap::Trace;

#[derive(Trace)]
union Either {
    number: u64,
    float: f64,
}

fn main() {}

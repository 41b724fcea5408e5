//! What is borrowed of an object is borrowed of the `Gc`.
use neap::Gc;

fn content() -> &'static str {
    let object = Gc::new(String::from("short"));
    &**object
}

fn main() {
    content();
}

//! Nobody knows what a boxed closure has captured.
use neap::Gc;

fn main() {
    let object = Gc::new(1);
    let function: Box<dyn Fn() -> i32 + Send> = Box::new(move || *object);
    Gc::new(function);
}

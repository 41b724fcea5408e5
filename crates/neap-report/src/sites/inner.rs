//! What at the inner end of a stack is between the program and its memory: the library's own
//! functions, and those by which C++'s containers allocate.
//!
//! Invariant: the function that the program called stays, where it is a container's, and so does
//! everything from the program's first function on. Pure.

use super::Frame;

/// What the library's own functions begin with, where it is linked into the program, and those of
/// the packages for C++ and D.
const OWN: [&str; 9] = [
    "neap::",
    "neap_core::",
    "neap_c::",
    "neap_bdw::",
    "<neap::",
    "<neap_core::",
    "neap_alloc",
    "neap_inline_",
    "neap.plugin.NeapGC.",
];

/// Where the standard libraries of C++ keep what they do.
const STANDARD: [&str; 2] = ["std::", "__gnu_cxx::"];
/// The same of names that nobody could read.
const MANGLED: [&str; 4] = ["_ZSt", "_ZNSt", "_ZNKSt", "_ZN9__gnu_cxx"];

/// How many of these frames, innermost first, are not to be shown.
pub fn count<'f>(frames: impl Iterator<Item = &'f Frame>) -> usize {
    let mut left_out = 0;
    for (index, frame) in frames.enumerate() {
        if is_own(frame) {
            left_out = index + 1;
        } else if is_standard(frame) {
            // The outermost one is what the program called.
            left_out = index;
        } else {
            break;
        }
    }
    left_out
}

fn is_own(frame: &Frame) -> bool {
    let name = qualified(&frame.function);
    frame.is_library || OWN.iter().any(|own| name.starts_with(own))
}

/// Functions of Rust's library, which begin alike, are named without their parameters.
fn is_standard(frame: &Frame) -> bool {
    let name = qualified(&frame.function);
    let is_named = name.contains('(') && STANDARD.iter().any(|of| name.starts_with(of));
    is_named || MANGLED.iter().any(|of| name.starts_with(of))
}

/// The function without what it returns, which C++'s templates are named with.
fn qualified(function: &str) -> &str {
    let (mut depth, mut begin) = (0_usize, 0);
    for (at, sign) in function.char_indices() {
        match sign {
            '(' if depth == 0 && !function[at..].starts_with("(anonymous") => break,
            '<' | '(' => depth += 1,
            '>' | ')' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 && !function[begin..at].ends_with("operator") => begin = at + 1,
            _ => {}
        }
    }
    &function[begin..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left_out(functions: &[&str]) -> usize {
        let frames: Vec<Frame> =
            functions.iter().map(|function| (*function).to_owned().into()).collect();
        count(frames.iter())
    }

    #[test]
    fn names_without_what_they_return() {
        for (function, name) in [
            ("main", "main"),
            ("void* neap::detail::get<false>(long)", "neap::detail::get<false>(long)"),
            ("A*& std::vector<A*, b<A*> >::c<A*>(A*&&)", "std::vector<A*, b<A*> >::c<A*>(A*&&)"),
            ("operator new(unsigned long)", "operator new(unsigned long)"),
            ("int (anonymous namespace)::get<int>(int)", "(anonymous namespace)::get<int>(int)"),
            ("<neap::gc::Gc<T>>::new", "<neap::gc::Gc<T>>::new"),
            ("std::function<void (int)>::a() const", "std::function<void (int)>::a() const"),
        ] {
            assert_eq!(qualified(function), name);
        }
    }

    #[test]
    fn containers_are_shown_by_the_function_that_the_program_called() {
        let allocation = [
            "void* neap::detail::allocate<false, false>(unsigned long, unsigned long)",
            "neap::allocator<int, false>::allocate(unsigned long)",
            "std::allocator_traits<neap::allocator<int> >::allocate(neap::allocator<int>&, long)",
            "int& std::vector<int, neap::allocator<int> >::emplace_back<int>(int&&)",
        ];
        let with = |more: &[&'static str]| [&allocation[..], more].concat();
        let push = "std::vector<int, neap::allocator<int> >::push_back(int&&)";
        assert_eq!(left_out(&with(&[push, "fill()", "main"])), 4);
        assert_eq!(left_out(&with(&["fill()", "main"])), 3);
        // What calls the program's functions is none of this.
        assert_eq!(left_out(&with(&["less()", "void std::sort<int*>(int*, int*)", "main"])), 3);
        assert_eq!(left_out(&with(&["S* neap::make<S>()", "main"])), 5);
        assert_eq!(left_out(&with(&["_ZSt15allocate_sharedI", "fill()", "main"])), 4);
    }

    #[test]
    fn what_is_not_cpp_is_left_as_it_is() {
        assert_eq!(left_out(&["std::thread::spawn", "main"]), 0);
        assert_eq!(left_out(&["stdlib_init(int)", "main"]), 0);
        assert_eq!(left_out(&["neap_core::api::allocate", "std::sys::start", "main"]), 1);
        assert_eq!(left_out(&[]), 0);
    }
}

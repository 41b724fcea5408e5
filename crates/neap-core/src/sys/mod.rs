//! Every system call of the crate. Each file states what it assumes of the kernel; nothing here
//! knows of heaps or cycles.

pub mod alternate_stack;
pub mod cgroup;
pub mod child;
pub mod clock;
pub mod fault;
pub mod futex;
pub mod image;
pub mod instruments;
#[cfg_attr(miri, path = "map_under_miri.rs")]
pub mod map;
pub mod mappings;
pub mod meta_alloc;
pub mod meta_vec;
pub mod modules;
pub mod own_thread;
pub mod page_faults;
pub mod print;
pub mod program_action;
pub mod refusal;
pub mod resident;
pub mod shared_page;
pub mod side_stack;
pub mod signal;
pub(crate) mod table;
pub mod thread;
pub mod unwind;
pub mod write_watch;

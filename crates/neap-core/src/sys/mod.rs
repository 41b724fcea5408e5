//! Every system call of the crate. Each file states what it assumes of the kernel; nothing here
//! knows of heaps or cycles.

pub mod clock;
pub mod files;
pub mod futex;
pub mod libc_function;
#[cfg_attr(miri, path = "map/map_under_miri.rs")]
pub mod map;
pub mod meta_alloc;
pub mod meta_vec;
pub mod own_thread;
pub mod print;
pub mod process;
pub mod program_action;
pub mod program_call;
pub mod protection;
pub mod refusal;
pub mod side_stack;
pub mod signal;
pub(crate) mod table;
pub mod thread;
pub mod unwind;

//! Files of the kernel's, and descriptors. Called from any thread.

pub mod descriptor;
pub mod quiet_write;
pub mod small_file;

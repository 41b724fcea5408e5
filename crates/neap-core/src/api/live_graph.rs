//! A snapshot of the live graph, for front ends.

use core::ffi::CStr;

use crate::runtime::snapshot_file;

/// Writes the graph of all live objects to a file in the format of Chrome's heap snapshots, over
/// what is there. The program stands still only while the process is copied; the calling thread
/// waits for the file. The error is a number of errno(3).
pub fn write_heap_snapshot(path: &CStr) -> Result<(), i32> {
    super::initialize();
    snapshot_file::write(path).map_err(|error| error.raw_os_error())
}

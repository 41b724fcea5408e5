//! Settings of Boehm's collector that tune a mechanism which Neap has not: kept so that a program
//! reads back what it wrote.
//!
//! Invariant: none of them changes what the program may rely on. `docs/boehm.md` lists them. Called
//! from any thread.

use core::ffi::c_int;
use core::sync::atomic::AtomicI32;

use crate::settings::variables::accessors;

static RATE: AtomicI32 = AtomicI32::new(10);
static MAX_PRIOR_ATTEMPTS: AtomicI32 = AtomicI32::new(1);
static MANUAL_VDB_ALLOWED: AtomicI32 = AtomicI32::new(0);
static MPROTECT_VDB_ALLOWED: AtomicI32 = AtomicI32::new(1);

accessors! {
    GC_set_rate, GC_get_rate: c_int => RATE;
    GC_set_max_prior_attempts, GC_get_max_prior_attempts: c_int => MAX_PRIOR_ATTEMPTS;
    GC_set_manual_vdb_allowed, GC_get_manual_vdb_allowed: c_int => MANUAL_VDB_ALLOWED;
    GC_set_mprotect_vdb_allowed, GC_get_mprotect_vdb_allowed: c_int => MPROTECT_VDB_ALLOWED;
}

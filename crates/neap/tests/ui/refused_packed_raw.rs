//! Packing that the derive hears of under another name, or does not hear of.
use adds_field::packs;
use neap::Trace;

#[derive(Trace)]
#[r#repr(C, packed)]
struct Raw(u8, u64);

#[derive(Trace)]
#[packs]
struct Below(u8, u64);

fn main() {}

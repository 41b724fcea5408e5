//! Where sampled objects were allocated: what each stack of calls allocated and what of it is still
//! there, as estimates of all allocations.
//!
//! Invariant: a sample counts for as many objects of its size as the chance of being sampled says,
//! so the expected sums are those of all allocations. Names come from whoever calls; the library's
//! own frames are left out, as [`inner`] says. Pure.

mod inner;

use crate::cost::Cells;
use neap_record::Recording;
use neap_record::chunks::Samples;
use neap_record::decode::Module;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt;

/// Sites that a page or JSON holds at most.
const MOST_SITES: usize = 1000;

/// Objects and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Objects.
    pub objects: u64,
    /// Bytes asked for.
    pub bytes: u64,
}

/// One stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// Functions, innermost first, with file and line where known.
    pub frames: Vec<String>,
    /// Everything allocated.
    pub allocated: Amount,
    /// What is still there.
    pub live: Amount,
    /// Samples that this rests on.
    pub samples: u64,
}

/// A function on a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Its name; of code without one the file and the place in it.
    pub function: String,
    /// The source file and line, where known.
    pub place: Option<(String, u32)>,
    /// It comes from a source file of the library.
    pub is_library: bool,
}

impl fmt::Display for Frame {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.function)?;
        match &self.place {
            Some((file, line)) => write!(out, " ({file}:{line})"),
            None => Ok(()),
        }
    }
}

impl From<String> for Frame {
    fn from(function: String) -> Self {
        Self { function, place: None, is_library: false }
    }
}

/// Finds the functions at an address of a module's file: innermost first, more than one where calls
/// were inlined; none where nothing is known.
pub type Symbolise<'s> = dyn FnMut(&Module, u64) -> Vec<Frame> + 's;

/// Objects and bytes of one site, allocated and live, from its samples: an object of `cell` bytes
/// is sampled with the chance 1 - exp(-cell / mean).
pub fn estimate(samples: &Samples, cell: u64, mean: u64) -> [Amount; 2] {
    let weight = 1.0 / -(-(cell as f64) / mean.max(1) as f64).exp_m1();
    let amount = |objects: u64, bytes: u64| Amount {
        objects: (objects as f64 * weight).round() as u64,
        bytes: (bytes as f64 * weight).round() as u64,
    };
    let live_objects = samples.objects.saturating_sub(samples.gone_objects);
    let live_bytes = samples.bytes.saturating_sub(samples.gone_bytes);
    [amount(samples.objects, samples.bytes), amount(live_objects, live_bytes)]
}

/// [`estimate`] for a recording's samples, whose objects are all of one size, or about that.
pub fn estimate_in(recording: &Recording, samples: &Samples) -> [Amount; 2] {
    let size = samples.bytes / samples.objects.max(1);
    estimate(samples, Cells::of(recording).cell(size).1, recording.process.sample_bytes)
}

/// The stacks of a recording's sites, as every tool shows them.
pub struct Stacks<'r, 's> {
    recording: &'r Recording,
    symbolise: &'s mut Symbolise<'s>,
    known: HashMap<u64, Vec<Frame>>,
}

impl<'r, 's> Stacks<'r, 's> {
    /// With somebody who knows names.
    pub fn new(recording: &'r Recording, symbolise: &'s mut Symbolise<'s>) -> Self {
        Self { recording, symbolise, known: HashMap::new() }
    }

    /// The functions of a site, innermost first, without the library's own and what is between them
    /// and the program: for each address (0 where no stack is known) those that were inlined there
    /// and the one that they are in.
    pub fn of(&mut self, site: u64) -> Vec<(u64, Vec<Frame>)> {
        let addresses = self.recording.sites.get(&site).map(Vec::as_slice).unwrap_or_default();
        let mut stack: Vec<(u64, Vec<Frame>)> = Vec::new();
        for &address in addresses {
            let (recording, symbolise) = (self.recording, &mut *self.symbolise);
            let frames =
                self.known.entry(address).or_insert_with(|| names(recording, address, symbolise));
            stack.push((address.saturating_sub(1), frames.clone()));
        }
        let mut left_out = inner::count(stack.iter().flat_map(|(_, frames)| frames));
        stack.retain_mut(|(_, frames)| {
            let here = left_out.min(frames.len());
            left_out -= here;
            frames.drain(..here);
            !frames.is_empty()
        });
        if stack.is_empty() {
            stack.push((0, vec!["no stack known".to_owned().into()]));
        }
        stack
    }
}

/// The sites of a recording, those that allocated most first.
pub fn sites<'s>(recording: &Recording, symbolise: &'s mut Symbolise<'s>) -> Vec<Site> {
    let mut stacks = Stacks::new(recording, symbolise);
    let mut by_stack: HashMap<Vec<String>, Site> = HashMap::new();
    for (number, samples) in &recording.samples {
        let frames: Vec<String> = stacks
            .of(*number)
            .iter()
            .flat_map(|(_, frames)| frames.iter().map(Frame::to_string))
            .collect();
        let [allocated, live] = estimate_in(recording, samples);
        let site = by_stack.entry(frames).or_default();
        for (sum, more) in [(&mut site.allocated, allocated), (&mut site.live, live)] {
            sum.objects = sum.objects.saturating_add(more.objects);
            sum.bytes = sum.bytes.saturating_add(more.bytes);
        }
        site.samples = site.samples.saturating_add(samples.objects);
    }
    let mut sites: Vec<Site> =
        by_stack.into_iter().map(|(frames, site)| Site { frames, ..site }).collect();
    sites.sort_by(|a, b| b.allocated.bytes.cmp(&a.allocated.bytes).then(a.frames.cmp(&b.frames)));
    sites
}

/// The functions at a return address: it names the call before it, so one byte less.
fn names(recording: &Recording, return_address: u64, symbolise: &mut Symbolise<'_>) -> Vec<Frame> {
    let address = return_address.saturating_sub(1);
    // Where something else was loaded at the same place later, nothing tells which it was: the
    // later one is as good.
    let module =
        recording.modules.iter().rev().find(|module| (module.start..module.end).contains(&address));
    let Some(module) = module else { return vec![format!("{address:#x}").into()] };
    let in_file = address.wrapping_sub(module.bias);
    let names = symbolise(module, in_file);
    if names.is_empty() {
        let file = module.path.rsplit('/').next().unwrap_or_default();
        return vec![format!("{file}+{in_file:#x}").into()];
    }
    names
}

/// The sites as JSON; null where none were sampled.
pub fn json(recording: &Recording, sites: &[Site]) -> Value {
    if recording.process.sample_bytes == 0 {
        return Value::Null;
    }
    let amount = |amount: &Amount| json!({ "objects": amount.objects, "bytes": amount.bytes });
    sites
        .iter()
        .take(MOST_SITES)
        .map(|site| {
            json!({
                "frames": site.frames,
                "allocated": amount(&site.allocated),
                "live": amount(&site.live),
                "samples": site.samples,
            })
        })
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Two stacks with a function in common, one of them with two sizes.
    pub fn sampled() -> Recording {
        let mut recording = crate::summary::tests::sample();
        recording.process.sample_bytes = 1024;
        let module = Module {
            start: 0x1000,
            end: 0x9000,
            bias: 0x1000,
            path: "/x/prog".to_owned(),
            ..Module::default()
        };
        recording.modules.push(module);
        recording.sites = [
            (0, vec![0x1101, 0x1201, 0x1301]),
            (1, vec![0x1101, 0x1201, 0x1301]),
            (2, vec![0x1202, 0x1301]),
            (3, vec![]),
        ]
        .into();
        recording.samples = [
            (0, Samples { objects: 4, bytes: 4 << 15, gone_objects: 1, gone_bytes: 1 << 15 }),
            (1, Samples { objects: 2, bytes: 16, gone_objects: 2, gone_bytes: 16 }),
            (2, Samples { objects: 1, bytes: 1 << 15, ..Samples::default() }),
            (3, Samples { objects: 1, bytes: 1 << 15, ..Samples::default() }),
        ]
        .into();
        recording
    }

    /// Names of the functions in it, as a file of it would give them.
    pub fn names(_: &Module, address: u64) -> Vec<Frame> {
        let at = |function: &str, line| Frame {
            function: function.to_owned(),
            place: Some(("a.c".to_owned(), line)),
            is_library: false,
        };
        match address {
            0x100 => vec!["neap_core::api::allocate".to_owned().into()],
            0x200 => vec![at("inner", 3), at("inlined <into>", 9)],
            0x300 => vec![at("main", 20)],
            _ => vec![],
        }
    }

    #[test]
    fn stacks_are_merged_over_sizes_and_weighed() {
        let sites = sites(&sampled(), &mut names);
        assert_eq!(sites.len(), 3);
        assert_eq!(sites[0].frames, ["inner (a.c:3)", "inlined <into> (a.c:9)", "main (a.c:20)"]);
        // Each of the small ones stands for 1 / (1 - exp(-8 / 1024)) = 128.5 objects.
        assert_eq!(sites[0].allocated, Amount { objects: 4 + 257, bytes: (4 << 15) + 2056 });
        assert_eq!(sites[0].live, Amount { objects: 3, bytes: 3 << 15 });
        assert_eq!(sites[0].samples, 6);
        assert_eq!(sites[1].frames, ["no stack known"]);
        assert_eq!(sites[2].frames, ["prog+0x201", "main (a.c:20)"]);
    }

    /// In a program that it is linked into, and inlined in the program's functions.
    #[test]
    fn the_librarys_functions_are_left_out_also_without_their_paths() {
        let of_library = |name: &str| Frame { is_library: true, ..name.to_owned().into() };
        let names = &mut |module: &Module, address: u64| match address {
            0x100 => vec![of_library("note"), of_library("slow_from")],
            0x200 => vec![of_library("cell"), "<neap::gc::Gc<T>>::new".to_owned().into()]
                .into_iter()
                .chain(names(module, address))
                .collect(),
            _ => names(module, address),
        };
        let sites = sites(&sampled(), names);
        assert_eq!(sites[0].frames, ["inner (a.c:3)", "inlined <into> (a.c:9)", "main (a.c:20)"]);
    }

    #[test]
    fn the_sum_is_that_of_all_allocations() {
        let samples = Samples { objects: 8, bytes: 64, ..Samples::default() };
        let [all, live] = estimate(&samples, 8, 1 << 19);
        assert!(all.objects.abs_diff(8 * 65_536 + 4) <= 1, "{}", all.objects);
        assert_eq!(all, live);
    }
}

//! A recording's sampled allocation sites as a pprof heap profile: what was allocated at each site
//! and what of it is still there, objects and bytes.
//!
//! Invariant: frames are the functions that `neap report` shows, the library's own left out, so
//! that both say the same of the same recording. Samples are weighed so that the expected values
//! are those of all allocations. A sample has its objects' size as the label `bytes`, as Go's have,
//! and the name of their type, if they have one, as the label `type`. The messages are those of
//! pprof's `profile.proto`, as far as they are used. Called by `export` and `metrics`.

use super::segments::segments;
use flate2::Compression;
use flate2::write::GzEncoder;
use neap_record::Recording;
use neap_record::chunks::Samples;
use neap_report::sites::{self, Frame, Stacks, Symbolise};
use neap_report::summary::length;
use prost::Message;
use std::collections::HashMap;
use std::io::Write;

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

/// What a value is: places in the table of strings.
#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

/// What is known of a sample besides: a text, or a number with its unit.
#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    text: i64,
    #[prost(int64, tag = "3")]
    number: i64,
    #[prost(int64, tag = "4")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    memory_start: u64,
    #[prost(uint64, tag = "3")]
    memory_limit: u64,
    #[prost(uint64, tag = "4")]
    file_offset: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(int64, tag = "6")]
    build_id: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
    #[prost(bool, tag = "8")]
    has_filenames: bool,
    #[prost(bool, tag = "9")]
    has_line_numbers: bool,
    #[prost(bool, tag = "10")]
    has_inline_frames: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(uint64, tag = "3")]
    address: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

/// A function at a location: those that were inlined come first.
#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// Strings of the profile, each once; the first is the empty one.
struct Strings {
    table: Vec<String>,
    known: HashMap<String, i64>,
}

impl Strings {
    fn new() -> Self {
        Self { table: vec![String::new()], known: [(String::new(), 0)].into() }
    }

    fn place(&mut self, text: &str) -> i64 {
        if let Some(place) = self.known.get(text) {
            return *place;
        }
        let place = self.table.len() as i64;
        self.table.push(text.to_owned());
        self.known.insert(text.to_owned(), place);
        place
    }

    fn value_type(&mut self, kind: &str, unit: &str) -> ValueType {
        ValueType { kind: self.place(kind), unit: self.place(unit) }
    }
}

/// Locations and functions so far.
#[derive(Default)]
struct Code {
    location: Vec<Location>,
    known: HashMap<(u64, Vec<Frame>), u64>,
    function: Vec<Function>,
    functions: HashMap<(i64, i64), u64>,
}

impl Code {
    /// The location of these functions, at an address of the program.
    fn place_of(
        &mut self,
        strings: &mut Strings,
        mapping: &[Mapping],
        address: u64,
        frames: Vec<Frame>,
    ) -> u64 {
        let key = (address, frames);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let line = key.1.iter().map(|frame| self.line(strings, frame)).collect();
        let id = self.location.len() as u64 + 1;
        let holds =
            |mapping: &&Mapping| (mapping.memory_start..mapping.memory_limit).contains(&address);
        let mapping_id = mapping.iter().find(holds).map_or(0, |mapping| mapping.id);
        self.location.push(Location { id, mapping_id, address, line });
        self.known.insert(key, id);
        id
    }

    fn line(&mut self, strings: &mut Strings, frame: &Frame) -> Line {
        let name = strings.place(&frame.function);
        let filename = frame.place.as_ref().map_or(0, |(file, _)| strings.place(file));
        let new = self.function.len() as u64 + 1;
        let function_id = *self.functions.entry((name, filename)).or_insert(new);
        if function_id == new {
            self.function.push(Function { id: new, name, system_name: name, filename });
        }
        let line = frame.place.as_ref().map_or(0, |(_, line)| i64::from(*line));
        Line { function_id, line }
    }
}

/// What is wanted of a recording.
pub struct Wanted<'r> {
    /// The value that tools show first.
    pub shown: &'r str,
    /// The recording of the same process as it was before: what changed since then is wanted.
    pub since: Option<&'r Recording>,
    /// When the profile is of, since 1970.
    pub unix_ns: u64,
    /// How long it took until then.
    pub lasted_ns: u64,
}

impl Wanted<'_> {
    /// All of a recording.
    pub fn whole(recording: &Recording) -> Self {
        let lasted_ns = length(recording);
        let unix_ns = recording.process.began_unix_ns.saturating_add(lasted_ns);
        Self { shown: "inuse_space", since: None, unix_ns, lasted_ns }
    }

    /// What is wanted of a site's values.
    fn of(&self, recording: &Recording, site: u64, samples: &Samples) -> Vec<i64> {
        let before =
            self.since.filter(|before| before.sites.get(&site) == recording.sites.get(&site));
        let before = before.and_then(|before| Some(values(before, before.samples.get(&site)?)));
        let now = values(recording, samples);
        match before {
            Some(before) => now.iter().zip(before).map(|(now, before)| now - before).collect(),
            None => now,
        }
    }
}

/// The profile, compressed as pprof's tools expect; None if no sites were sampled.
pub fn profile<'s>(
    recording: &Recording,
    wanted: &Wanted<'_>,
    symbolise: &'s mut Symbolise<'s>,
) -> Option<Vec<u8>> {
    if recording.process.sample_bytes == 0 {
        return None;
    }
    let mut strings = Strings::new();
    let mut mapping: Vec<Mapping> = Vec::new();
    for module in &recording.modules {
        for segment in segments(module) {
            mapping.push(Mapping {
                id: mapping.len() as u64 + 1,
                memory_start: segment.start,
                memory_limit: segment.end,
                file_offset: segment.offset,
                filename: strings.place(&module.path),
                build_id: strings.place(&module.build_id),
                has_functions: true,
                has_filenames: true,
                has_line_numbers: true,
                has_inline_frames: true,
            });
        }
    }
    let (mut code, mut sample) = (Code::default(), Vec::new());
    let mut stacks = Stacks::new(recording, symbolise);
    for (site, samples) in &recording.samples {
        let value = wanted.of(recording, *site, samples);
        if value.iter().all(|value| *value == 0) {
            continue;
        }
        let place = |(address, frames)| code.place_of(&mut strings, &mapping, address, frames);
        let location_id = stacks.of(*site).into_iter().map(place).collect();
        let label = labels(&mut strings, recording, *site, samples);
        sample.push(Sample { location_id, value, label });
    }
    let sample_type = [
        ("alloc_objects", "count"),
        ("alloc_space", "bytes"),
        ("inuse_objects", "count"),
        ("inuse_space", "bytes"),
    ]
    .map(|(kind, unit)| strings.value_type(kind, unit))
    .to_vec();
    let profile = Profile {
        sample_type,
        sample,
        mapping,
        location: code.location,
        function: code.function,
        time_nanos: wanted.unix_ns as i64,
        duration_nanos: wanted.lasted_ns as i64,
        period_type: Some(strings.value_type("space", "bytes")),
        period: recording.process.sample_bytes as i64,
        default_sample_type: strings.place(wanted.shown),
        string_table: strings.table,
    };
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    out.write_all(&profile.encode_to_vec()).expect("memory takes everything");
    Some(out.finish().expect("memory takes everything"))
}

/// Objects and bytes, allocated and still there, as they would be without sampling.
fn values(recording: &Recording, samples: &Samples) -> Vec<i64> {
    let amounts = sites::estimate_in(recording, samples);
    amounts.iter().flat_map(|amount| [amount.objects as i64, amount.bytes as i64]).collect()
}

/// The size of a site's objects, and the name of their type.
fn labels(
    strings: &mut Strings,
    recording: &Recording,
    site: u64,
    samples: &Samples,
) -> Vec<Label> {
    let number = (samples.bytes / samples.objects.max(1)) as i64;
    let bytes = strings.place("bytes");
    let mut labels = vec![Label { key: bytes, text: 0, number, unit: bytes }];
    let layout = recording.site_layouts.get(&site);
    if let Some(name) = layout.and_then(|layout| recording.names.get(layout)) {
        let (key, text) = (strings.place("type"), strings.place(name));
        labels.push(Label { key, text, number: 0, unit: 0 });
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::{Symbols, build_id};
    use flate2::read::GzDecoder;
    use neap_record::decode::Module;
    use std::io::Read;
    use std::process::Command;

    #[inline(never)]
    fn allocating_function_of_the_test() -> usize {
        std::hint::black_box(17)
    }

    /// A recording of this very program, with one site in a function of a known name.
    fn recording() -> Recording {
        let mut recording = Recording::default();
        recording.process.sample_bytes = 1 << 19;
        recording.process.page_bytes = 4096;
        let file = std::env::current_exe().unwrap().to_string_lossy().into_owned();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let ranges = maps.lines().filter(|line| line.ends_with(&file)).map(|line| {
            let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
            [start, end].map(|address| u64::from_str_radix(address, 16).unwrap())
        });
        let (start, end) =
            ranges.fold((u64::MAX, 0), |(low, high), [start, end]| (low.min(start), high.max(end)));
        let build_id = build_id(&std::fs::read(&file).unwrap()).unwrap_or_default();
        recording.modules.push(Module { start, end, bias: start, path: file, build_id });
        let address = allocating_function_of_the_test as *const () as u64 + 4;
        recording.sites.insert(3, vec![address]);
        recording.samples.insert(
            3,
            Samples { objects: 10, bytes: 10 << 20, gone_objects: 4, gone_bytes: 4 << 20 },
        );
        recording.site_layouts.insert(3, 5);
        recording.names.insert(5, "lisp::Frame".to_owned());
        recording
    }

    fn read(recording: &Recording, wanted: &Wanted<'_>) -> Profile {
        let mut text = Vec::new();
        let packed = profile(recording, wanted, &mut |_, _| Vec::new()).unwrap();
        GzDecoder::new(&*packed).read_to_end(&mut text).unwrap();
        Profile::decode(&*text).unwrap()
    }

    #[test]
    fn a_profile_is_of_the_moment_that_it_shows() {
        let mut recording = recording();
        recording.process.began_unix_ns = 5_000;
        recording.ended_ns = Some(700);
        let read = read(&recording, &Wanted::whole(&recording));
        assert_eq!((read.time_nanos, read.duration_nanos), (5_700, 700));
    }

    /// What was allocated, what more is there than before; a site where nothing changed is none.
    #[test]
    fn what_changed_is_the_difference() {
        let (before, mut recording) = (recording(), recording());
        let objects = |objects: u64, gone: u64| Samples {
            objects,
            bytes: objects << 20,
            gone_objects: gone,
            gone_bytes: gone << 20,
        };
        let wanted = Wanted { since: Some(&before), ..Wanted::whole(&recording) };
        assert!(read(&recording, &wanted).sample.is_empty());
        recording.samples.insert(3, objects(12, 9));
        recording.sites.insert(4, vec![0x1234]);
        recording.samples.insert(4, objects(1, 0));
        let wanted = Wanted { since: Some(&before), ..Wanted::whole(&recording) };
        let read = read(&recording, &wanted);
        let units = |sample: &Sample| -> Vec<i64> {
            let mebibytes = |at: usize| (sample.value[at] as f64 / 1e6).round() as i64;
            vec![sample.value[0], mebibytes(1), sample.value[2], mebibytes(3)]
        };
        // Objects of a MiB, of which 0.865 are sampled.
        let all: Vec<_> = read.sample.iter().map(units).collect();
        assert_eq!(all, [vec![2, 2, -4, -4], vec![1, 1, 1, 1]]);
    }

    #[test]
    fn samples_are_labelled_with_size_and_type() {
        let mut recording = recording();
        let untyped = Samples { objects: 2, bytes: 48, ..Samples::default() };
        recording.samples.insert(4, untyped);
        let read = read(&recording, &Wanted::whole(&recording));
        let string = |place: i64| read.string_table[place as usize].as_str();
        let labels = |sample: &Sample| {
            let all = sample.label.iter();
            all.map(|label| {
                let [key, text, unit] = [label.key, label.text, label.unit].map(string);
                format!("{key}={text}{}{unit}", label.number)
            })
            .collect::<Vec<_>>()
        };
        let all: Vec<_> = read.sample.iter().map(labels).collect();
        let typed = ["bytes=1048576bytes", "type=lisp::Frame0"].map(String::from).to_vec();
        assert_eq!(all, [typed, vec!["bytes=24bytes".to_owned()]]);
    }

    /// Looked for one after the other they take time by the square of their number.
    #[test]
    fn many_strings_have_each_one_place() {
        let mut strings = Strings::new();
        for _ in 0..2 {
            assert_eq!(strings.place(""), 0);
            for number in 1..=100_000 {
                assert_eq!(strings.place(&format!("function {number}")), number);
            }
        }
        assert_eq!(strings.table.len(), 100_001);
    }

    #[test]
    fn a_recording_without_sites_is_no_profile() {
        let (empty, names) = (Recording::default(), &mut |_: &Module, _| Vec::new());
        assert!(profile(&empty, &Wanted::whole(&empty), names).is_none());
    }

    #[test]
    fn go_tool_pprof_reads_it_and_finds_the_function() {
        let Ok(version) = Command::new("go").arg("version").output() else {
            return println!("# SKIP go is not installed");
        };
        assert!(version.status.success());
        std::hint::black_box(allocating_function_of_the_test());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("heap.pb.gz");
        let mut symbols = Symbols::default();
        let names = &mut |module: &Module, address| symbols.at(module, address);
        let recording = recording();
        let whole = Wanted::whole(&recording);
        std::fs::write(&file, profile(&recording, &whole, names).unwrap()).unwrap();
        let said = |arguments: &[&str]| {
            let output = Command::new("go")
                .args(["tool", "pprof"])
                .args(arguments)
                .arg(&file)
                .env("PPROF_TMPDIR", folder.path())
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let raw = said(&["-raw"]);
        assert!(
            raw.contains("inuse_space/bytes") && raw.contains("PeriodType: space bytes"),
            "{raw}"
        );
        // Objects of a MiB: all but one in 7.4 are sampled.
        let top = said(&["-top", "-sample_index=inuse_space", "-unit=MB"]);
        assert!(top.contains("allocating_function_of_the_test"), "{top}");
        assert!(top.contains("6.94MB"), "{top}");
        let tags = said(&["-tags"]);
        assert!(tags.contains("lisp::Frame"), "{tags}");
    }
}

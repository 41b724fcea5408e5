//! Whole recordings there and back; cut and damaged ones.
//!
//! Called by the tests' runner.

use super::*;
use crate::chunks;
use crate::frame::Writer;
use crate::spans::SpanKind;

const PROCESS: chunks::Process<'_> = chunks::Process {
    id: 42,
    parent: 1,
    began_unix_ns: 1_700_000_000_000_000_000,
    page_bytes: 4096,
    command: b"prog\0-x\0",
    watch: b"none",
    version: b"0.1.0",
    sample_bytes: 0,
};

fn recorded() -> Vec<u8> {
    let mut buffer = vec![0; 4096];
    let mut out = Writer::new(&mut buffer, 0);
    out.raw(&MAGIC);
    out.process(&PROCESS, [8_u32, 16].into_iter()).unwrap();
    out.option(b"growth", b"2").unwrap();
    out.thread(5, 1, 43, b"main").unwrap();
    out.counts(10, 1, 0, [(16, 2), (300, 1)].into_iter()).unwrap();
    out.counts(10, 1, 1, [(16, 4)].into_iter()).unwrap();
    out.counts(20, 1, 0, [(16, 3)].into_iter()).unwrap();
    out.layout(7, Shape::Bitmap { element_words: 4, pointer_words: 1 }, "Tide").unwrap();
    out.layouts(20, 1, [(7, 2, 64)].into_iter()).unwrap();
    out.layouts(30, 1, [(7, 1, 32)].into_iter()).unwrap();
    out.cycle(&Cycle { number: 1, live_bytes: 99, ..Cycle::default() }).unwrap();
    out.steps([(0, 11), (7, 15)].into_iter()).unwrap();
    let span = |kind, began_ns| Span { kind, thread: 43, cycle: 1, began_ns, length_ns: 3 };
    let spans = [span(SpanKind::LastStop, 12), span(SpanKind::Mark, 11)];
    out.spans(spans.iter().map(Span::values)).unwrap();
    let census = Census { live_objects: 3, ..Census::default() };
    out.census(1, [(0, 1, census)].into_iter()).unwrap();
    out.map(1, 65536, &[0, 128, 255]).unwrap();
    let conditions = Conditions { align_all: 1, ..Conditions::default() };
    let statistics = Statistics { cycles: 1, ..Statistics::default() };
    out.statistics(30, &conditions, &statistics).unwrap();
    out.module(4096, 8192, 4096, b"/bin/prog", &[0xab, 1]).unwrap();
    out.site(1, [4100, 4200].into_iter()).unwrap();
    out.site_layout(1, 3).unwrap();
    let samples = Samples { objects: 1, bytes: 16, ..Samples::default() };
    out.samples(30, [(1, samples)].into_iter()).unwrap();
    out.samples(31, [(1, samples)].into_iter()).unwrap();
    out.end(40).unwrap();
    let length = out.length();
    buffer.truncate(length);
    buffer
}

#[test]
fn everything_comes_back() {
    let recording = Recording::read(&recorded()).unwrap();
    assert_eq!(recording.process.command, ["prog", "-x"]);
    assert_eq!(recording.process.cells, [8, 16]);
    assert_eq!(recording.options, [("growth".to_owned(), "2".to_owned())]);
    assert_eq!(recording.threads[&1].name, "main");
    assert_eq!(recording.counts[&(1, 0, 16)], 5);
    assert_eq!(recording.counts[&(1, 0, 300)], 1);
    assert_eq!(recording.counts[&(1, 1, 16)], 4);
    assert_eq!(
        recording.moments,
        [
            Moment { at_ns: 10, objects: 7, bytes: 396 },
            Moment { at_ns: 20, objects: 10, bytes: 444 }
        ]
    );
    assert_eq!(recording.layouts[&7], (3, 96));
    assert_eq!(recording.names[&7], "Tide");
    assert_eq!(recording.shapes[&7], Shape::Bitmap { element_words: 4, pointer_words: 1 });
    assert_eq!(recording.cycles[0].live_bytes, 99);
    assert_eq!(recording.steps, [(CycleEvent::CycleStart, 11), (CycleEvent::CycleEnd, 15)]);
    let [stop, mark] = [&recording.stops, &recording.spans].map(|spans| spans[0]);
    assert_eq!((recording.stops.len(), recording.spans.len()), (1, 1));
    assert_eq!((stop.kind, stop.began_ns, stop.ended_ns()), (SpanKind::LastStop, 12, 15));
    assert_eq!((mark.kind, mark.thread, mark.cycle), (SpanKind::Mark, 43, 1));
    assert_eq!(recording.census[0].3.live_objects, 3);
    assert_eq!(recording.maps[0].filled, [0, 128, 255]);
    assert_eq!((recording.conditions.align_all, recording.statistics[0].1.cycles), (1, 1));
    assert_eq!(recording.modules[0].build_id, "ab01");
    assert_eq!(recording.sites[&1], [4100, 4200]);
    assert_eq!(recording.site_layouts, [(1, 3)].into());
    assert_eq!(recording.samples[&1].bytes, 32);
    assert_eq!((recording.ended_ns, recording.problems.len()), (Some(40), 0));
}

#[test]
fn a_cut_file_is_right_up_to_where_it_ends() {
    let bytes = recorded();
    let mut requests = 0;
    for length in MAGIC.len()..bytes.len() {
        let recording = Recording::read(&bytes[..length]).unwrap();
        let now: u64 = recording.counts.values().sum();
        assert!(now >= requests && recording.ended_ns.is_none());
        assert!(recording.problems.len() <= 1);
        requests = now;
    }
    assert_eq!(requests, 10);
}

#[test]
fn damage_is_told_and_never_panics() {
    let bytes = recorded();
    for at in MAGIC.len()..bytes.len() {
        for flip in [1, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            assert_eq!(Recording::read(&damaged).unwrap().problems.len(), 1, "byte {at}");
        }
    }
}

/// What follows was recorded, and is not complete without it.
#[test]
fn a_length_that_leads_far_beyond_the_end_is_damage() {
    let mut bytes = recorded();
    bytes[MAGIC.len() + 3] ^= 0x80;
    let problems = Recording::read(&bytes).unwrap().problems;
    assert!(problems[0].contains("is damaged"), "{problems:?}");
}

/// A hostile one has a span for each of its bytes, each of which takes 48 in memory.
#[test]
fn spans_of_too_few_numbers_are_damage() {
    let with = |numbers: u8| {
        let mut recording = Recording::default();
        let payload = [&[numbers][..], &[1; 10]].concat();
        let taken = recording.take(Tag::Spans, &mut Reader::new(&payload));
        (taken.is_some(), recording.stops.len())
    };
    for numbers in 0..Span::COUNT as u8 {
        assert_eq!(with(numbers), (false, 0), "{numbers}");
    }
    assert_eq!([5, 10].map(with), [(true, 2), (true, 1)]);
}

#[test]
fn a_byte_past_the_end_that_comes_late_is_told() {
    let mut bytes = recorded();
    for (past_end, problems) in [(0, 0), (1, 1), (1, 1)] {
        let mut buffer = [0; 512];
        let mut out = Writer::new(&mut buffer, 0);
        let conditions = Conditions { past_end, ..Conditions::default() };
        out.statistics(50, &conditions, &Statistics::default()).unwrap();
        let length = out.length();
        bytes.extend_from_slice(&buffer[..length]);
        assert_eq!(Recording::read(&bytes).unwrap().problems.len(), problems);
    }
}

#[test]
fn payloads_of_any_bytes_are_read_or_refused() {
    // A generator with a fixed seed, so that a failure comes again.
    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..20_000 {
        let length = random() as usize % 40;
        let payload: Vec<u8> = (0..length).map(|_| (random() as u8) >> (random() % 8)).collect();
        if let Some(tag) = Tag::from_byte((random() % 16) as u8) {
            let _ = Recording::default().take(tag, &mut Reader::new(&payload));
        }
    }
}

#[test]
fn other_files_are_refused_with_advice() {
    assert!(Recording::read(b"{}").unwrap_err().to_string().contains("NEAP_STATS"));
    let mut later = MAGIC;
    later[7] = 9;
    assert_eq!(Recording::read(&later).unwrap_err().version, Some(9));
}

#[test]
fn text_from_outside_steers_no_terminal() {
    let shown = printable(b"a\x1b[2Jb\x07\xc2\x9bc\xe2\x80\xaed \xc3\xa9\xff");
    assert_eq!(shown, "a\\u{1b}[2Jb\\u{7}\\u{9b}c\\u{202e}d \u{e9}\u{fffd}");
}

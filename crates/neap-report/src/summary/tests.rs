//! A recording made by hand, and its figures.
//!
//! Called by the tests' runner, and by the tests of the other reports.

use super::*;
use crate::sites;
use neap_record::chunks::Samples;
use neap_record::decode::{Map, Moment, Thread};
use neap_record::{Census, Span};

/// Two threads, every kind, one cycle, one layout.
pub fn sample() -> Recording {
    let mut recording = Recording::default();
    recording.process.cells = (1..=16).map(|class| class * 8).chain([1024, 32768]).collect();
    recording.process.page_bytes = 4096;
    recording.process.command = vec!["prog".to_owned(), "a b".to_owned()];
    recording.threads.insert(1, Thread { id: 10, name: "main".to_owned(), began_ns: 0 });
    recording.threads.insert(2, Thread { id: 11, name: "other".to_owned(), began_ns: 5 });
    recording.counts = [
        ((1, 0, 24), 10),
        ((1, 1, 1000), 4),
        ((2, 0, 24), 5),
        ((2, 1, 100_000), 1),
        ((2, TYPED, 64), 2),
    ]
    .into();
    recording.layouts = [(3, (2, 128))].into();
    recording.names = [(3, "Tide".to_owned())].into();
    recording.shapes = [(3, Shape::Bitmap { element_words: 4, pointer_words: 1 })].into();
    recording.moments = vec![Moment { at_ns: 1_000_000_000, objects: 22, bytes: 104_488 }];
    recording.cycles = vec![
        Cycle {
            number: 1,
            ended_ns: 500_000_000,
            pause_ns: 2_000_000,
            allocated_bytes: 1000,
            live_bytes: 400,
            committed_bytes: 4096,
            ..Cycle::default()
        },
        Cycle {
            number: 2,
            ended_ns: 900_000_000,
            concurrent: 1,
            first_ns: 300_000,
            pause_ns: 500_000,
            allocated_bytes: 600,
            live_bytes: 500,
            committed_bytes: 8192,
            next_bytes: 7000,
            ..Cycle::default()
        },
    ];
    recording.stops = [
        (SpanKind::LastStop, 1, 498_000_000, 2_000_000),
        (SpanKind::FirstStop, 2, 800_000_000, 300_000),
        (SpanKind::LastStop, 2, 899_500_000, 500_000),
    ]
    .map(|(kind, cycle, began_ns, length_ns)| Span { kind, thread: 10, cycle, began_ns, length_ns })
    .to_vec();
    let census = Census { live_objects: 5, live_bytes: 480, cells: 10, block_bytes: 1024 };
    recording.census = vec![(2, 0, 3, census)];
    recording.maps = vec![Map { cycle: 2, stretch_bytes: 262_144, filled: vec![255, 0, 3] }];
    let statistics = Statistics {
        cycles: 2,
        allocated_objects: 22,
        allocated_bytes: 15 * 24 + 4 * 1024 + 102_400 + 128,
        ..Statistics::default()
    };
    recording.statistics = vec![(1_000_000_000, statistics)];
    recording.ended_ns = Some(1_000_000_000);
    recording
}

#[test]
fn figures_of_the_sample() {
    let summary = Summary::of(&sample());
    let total = Cost { objects: 22, requested: 104_488, allocated: 106_984 };
    assert_eq!(summary.total, total);
    assert_eq!(summary.total.wasted(), 2496);
    assert_eq!((summary.scanned.objects, summary.not_scanned.objects), (17, 5));
    assert_eq!(summary.different_sizes, 4);
    assert_eq!(
        summary.bins.iter().map(|row| row.0).collect::<Vec<_>>(),
        [Some(32), Some(64), Some(1024), None]
    );
    assert_eq!(
        summary.classes.iter().map(|row| row.0).collect::<Vec<_>>(),
        [Some(24), Some(64), Some(1024), None]
    );
    for rows in [&summary.bins, &summary.classes] {
        let sum = rows.iter().map(|row| row.1.allocated).sum::<u64>();
        assert_eq!(sum, total.allocated);
    }
    assert_eq!(summary.threads.len(), 2);
    let two = summary.powers_of_two;
    assert_eq!(two.conservative.allocated, 15 * 32 + 2 * 64 + 4 * 1024 + 102_400);
    assert_eq!(two.with_type_pointers.allocated, 15 * 32 + 2 * 128 + 4 * 1024 + 102_400);
}

#[test]
fn layouts_say_what_they_cost_and_save() {
    let mut recording = sample();
    let summary = Summary::of(&recording);
    assert_eq!(summary.layouts[0].not_scanned, 96);
    assert_eq!(summary.words_saved(), 12);
    assert_eq!(summary.bytes_per_typed_object(), Some(0.0));
    recording.statistics[0].1.allocated_bytes += 16;
    assert_eq!(Summary::of(&recording).bytes_per_typed_object(), Some(8.0));
    recording.statistics[0].1.allocated_objects += 1;
    assert_eq!(Summary::of(&recording).bytes_per_typed_object(), None);
}

#[test]
fn stops_and_memory() {
    let summary = Summary::of(&sample());
    let stops = &summary.stops;
    assert_eq!((stops.count(), stops.max(), stops.total()), (3, 2_000_000, 2_800_000));
    let half = stops.percentile(0.5);
    assert!((500_000..=562_500).contains(&half), "{half}");
    assert_eq!(stops.percentile(0.99), 2_000_000);
    assert_eq!(
        stops.kinds().collect::<Vec<_>>(),
        [(SpanKind::LastStop, 2), (SpanKind::FirstStop, 1)]
    );
    let mut earlier = sample();
    earlier.stops.clear();
    let stops = Summary::of(&earlier).stops;
    assert_eq!((stops.count(), stops.max(), stops.total()), (3, 2_000_000, 2_800_000));
    assert_eq!(summary.yielded, 600 + 500);
    let memory =
        Memory { cycle: 2, committed: 8192, live: 480, room: 7000, spare: 712, fragmentation: 0 };
    assert_eq!(summary.memory, Some(memory));
    assert_eq!(summary.beside_room, memory.beside_room(), "there is but one");
    assert_eq!(Summary::of(&Recording::default()).stops.percentile(0.99), 0);
}

#[test]
fn room_is_in_free_cells_first() {
    for (committed, blocks, live, room, wanted) in [
        // In free cells and in empty memory, of which there is more.
        (1000, 300, 200, 500, (500, 300, 0)),
        // In free cells alone, of which there are more.
        (1000, 900, 100, 500, (500, 100, 300)),
        // Less of both than the next cycle leaves time for.
        (400, 300, 200, 500, (200, 0, 0)),
        (300, 300, 200, 0, (0, 0, 100)),
    ] {
        let memory = Memory::divided(1, committed, live, blocks, room);
        assert_eq!(
            (memory.room, memory.spare, memory.fragmentation),
            wanted,
            "{committed} {blocks} {room}"
        );
        assert_eq!(memory.live + memory.room + memory.spare + memory.fragmentation, committed);
    }
}

/// A file may come from anybody.
#[test]
fn figures_beyond_all_numbers_end_at_the_largest() {
    const MOST: u64 = u64::MAX;
    let mut recording = sample();
    recording.counts = [((1, 0, MOST), MOST), ((2, 0, MOST), MOST), ((2, TYPED, 64), 1)].into();
    recording.conditions.padding_bytes = MOST;
    recording.statistics[0].1 = Statistics::from_values(&[MOST; Statistics::COUNT]);
    recording.cycles = vec![Cycle::from_values(&[MOST; Cycle::COUNT]); 2];
    let census = Census::from_values(&[MOST; Census::COUNT]);
    recording.census = vec![(MOST, 0, 0, census), (MOST, 0, 1, census)];
    let shape = Shape::Bitmap { element_words: 4, pointer_words: 0 };
    for layout in 0..20 {
        recording.layouts.insert(layout, (MOST, MOST));
        recording.shapes.insert(layout, shape);
    }
    recording.process.sample_bytes = MOST;
    let samples = Samples { objects: MOST, bytes: MOST, ..Samples::default() };
    recording.samples = [(1, samples), (2, samples)].into();
    recording.stops.iter_mut().for_each(|stop| stop.length_ns = MOST);
    let summary = Summary::of(&recording);
    assert_eq!((summary.words_saved(), summary.total.objects), (MOST, MOST));
    let sites = sites::sites(&recording, &mut |_, _| Vec::new());
    assert_eq!(sites[0].samples, MOST);
    assert!(crate::text::text(&recording, &sites).contains("found dead"));
    assert!(crate::csv::requests(&recording).contains(&format!("conservative,{MOST}")));
    assert!(crate::page::html(&recording, &sites).contains("sites"));
    let two = ("a", &recording);
    assert!(crate::compare::text(two, two).contains("found dead"));
}

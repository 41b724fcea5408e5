//! A history in words: the rows that both the drawn and the printed view show. Pure.

use super::history::{History, Span};
use neap_record::live::{PHASES, Page};
use neap_record::{Cycle, Live};

/// Bytes with a unit, three digits.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if unit == 0 || value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// A duration with a unit, three digits.
pub fn duration(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => (ns as f64, "ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let digits = if ns < 1000 || value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}

/// Name and value of each row.
pub fn rows(history: &History) -> Vec<(String, String)> {
    let page = history.now();
    let live = page.live;
    // Not even of the look before, where it could not be read.
    let cycle = page.cycle.filter(|_| live.cycles > 0);
    let (allocation, cycles, phase) = now(history);
    let stopped =
        rate(history.rate(|page| page.live.pause_total_ns), &|ns| format!("{:.2} %", ns / 1e7));
    let [half, most, longest] = percentiles(history, None);
    let found_live = match cycle {
        Some(cycle) => format!("{} live after the last cycle", bytes(cycle.live_bytes)),
        None => no_cycle(&live, "no cycle yet"),
    };
    let since_start = match live.handed_out_bytes {
        0 => "less than 512 KiB a thread".to_owned(),
        handed_out => bytes(handed_out),
    };
    let next =
        cycle.map_or(String::new(), |cycle| format!(", next after {}", bytes(cycle.next_bytes)));
    let named = |(name, value): (&str, String)| (name.to_owned(), value);
    let (late_name, late) = of_late(history);
    [
        (
            "heap",
            format!(
                "{} in blocks, {found_live}, {} of address range",
                bytes(live.used_bytes),
                bytes(live.reserved_bytes)
            ),
        ),
        ("allocation", format!("{allocation}, {since_start} since the start")),
        ("cycles", format!("{}, {cycles}, phase {phase}{next}", live.cycles)),
        (
            "stops",
            format!(
                "{}, median {half}, 99 % {most}, longest {longest}; {stopped} of the time",
                live.pause_count
            ),
        ),
        (late_name, late),
        ("last cycle", cycle.map_or_else(|| no_cycle(&live, "none yet"), |it| last_cycle(&it))),
        ("threads", live.threads.to_string()),
    ]
    .map(named)
    .into()
}

/// Figures of a cycle that never was are no figures, nor of one that could not be read.
fn no_cycle(live: &Live, never: &str) -> String {
    if live.cycles == 0 { never.to_owned() } else { "…".to_owned() }
}

/// The stops of the last minute, or of the time that is known.
fn of_late(history: &History) -> (&'static str, String) {
    let (before, span) = history.of_late();
    let (name, since) = match span {
        Span::Minute => ("last minute", String::new()),
        Span::Watched(since) => {
            ("lately", format!("since neap top began, {} s: ", since.as_secs()))
        }
        Span::Last(since) => ("lately", format!("in {} s: ", since.as_secs())),
    };
    let stops = match late_stops(history, before) {
        0 => "no stop".to_owned(),
        count => {
            let [half, most, longest] = percentiles(history, before);
            format!("{count} stops, median {half}, 99 % {most}, longest {longest}")
        }
    };
    (name, since + &stops)
}

/// What half of the stops since `before`, or of all, and 99 of 100 do not exceed, and the longest.
fn percentiles(history: &History, before: Option<&Page>) -> [String; 3] {
    let page = history.now();
    [0.5, 0.99, 1.0].map(|part| match before {
        None if part == 1.0 => duration(page.live.pause_max_ns),
        _ => page.percentile(before, part).map_or("–".into(), duration),
    })
}

/// How many stops came since `before`, or ever.
fn late_stops(history: &History, before: Option<&Page>) -> u64 {
    let count = before.map_or(0, |page| page.live.pause_count);
    history.now().live.pause_count.saturating_sub(count)
}

/// The same where there is little room, what is most asked for first, each in a short line: stops
/// as a table, of 25 columns where they have at most three digits.
pub fn short_rows(history: &History) -> Vec<(String, String)> {
    let page = history.now();
    let live = page.live;
    let table = |cells: [String; 3]| {
        let [half, most, longest] = cells;
        format!("{half:<8} {most:<8} {longest}")
    };
    let stops = |before: Option<&Page>| match late_stops(history, before) {
        0 => "no stop".to_owned(),
        _ => table(percentiles(history, before)),
    };
    let all = match live.pause_count {
        count @ 0..10_000_000 => format!("all {count}"),
        count => format!("all {} M", count / 1_000_000),
    };
    let (before, span) = history.of_late();
    let late = match span {
        Span::Minute => "last minute".to_owned(),
        Span::Watched(since) => format!("watched {}s", since.as_secs()),
        Span::Last(since) => format!("last {} s", since.as_secs()),
    };
    let (allocation, cycles, phase) = now(history);
    let found_live = match (live.cycles > 0, page.cycle) {
        (true, Some(cycle)) => format!("{} live", bytes(cycle.live_bytes)),
        _ => no_cycle(&live, "no cycle yet"),
    };
    vec![
        ("stops".to_owned(), table(["p50", "p99", "longest"].map(str::to_owned))),
        (all, stops(None)),
        (late, stops(before)),
        ("heap".to_owned(), format!("{}, {found_live}", bytes(live.used_bytes))),
        ("cycles".to_owned(), format!("{}, {cycles}, {phase}", live.cycles)),
        ("allocation".to_owned(), allocation),
        ("threads".to_owned(), live.threads.to_string()),
    ]
}

/// Bytes allocated and cycles in a second, and the phase of the cycle under way.
fn now(history: &History) -> (String, String, &'static str) {
    let allocation = rate(history.rate(|page| page.live.handed_out_bytes), &|value| {
        format!("{}/s", bytes(value as u64))
    });
    let cycles = rate(history.rate(|page| page.live.cycles), &|value| format!("{value:.1}/s"));
    let phase = PHASES.get(history.now().live.phase as usize).copied().unwrap_or("unknown");
    (allocation, cycles, phase)
}

/// A figure of a second, where there were two looks.
fn rate(rate: Option<f64>, show: &dyn Fn(f64) -> String) -> String {
    rate.map_or("…".into(), show)
}

fn last_cycle(cycle: &Cycle) -> String {
    let kind = match cycle.concurrent {
        0 => "stopped",
        1 => "concurrent",
        2 => "by a child",
        3 => "minor",
        4 => "snapshot",
        _ => "alone",
    };
    let stopped_ns = match cycle.stops {
        // From a program with an earlier library, which did not count them: its first, short and
        // last.
        0 => cycle.first_ns.saturating_add(cycle.short_stops_ns).saturating_add(cycle.pause_ns),
        _ => cycle.stops_ns,
    };
    let markers = match cycle.markers {
        1 => "1 marker".to_owned(),
        count => format!("{count} markers"),
    };
    format!(
        "{kind}: stopped {}, roots {}, marking {} on {markers}, references {}",
        duration(stopped_ns),
        duration(cycle.roots_ns),
        duration(cycle.mark_ns),
        duration(cycle.references_ns)
    )
}

#[cfg(test)]
mod tests {
    use super::super::history::tests::{HOUR, history};
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        for (count, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "0.98 KiB"),
            (10 << 10, "10.0 KiB"),
            (48 << 20, "48.0 MiB"),
            (900 << 30, "900 GiB"),
            (u64::MAX, "16384 PiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1500, "1.50 µs"),
            (23_400_000, "23.4 ms"),
            (5_000_000_000, "5.00 s"),
        ] {
            assert_eq!(duration(ns), text);
        }
    }

    #[test]
    fn rows_say_what_the_page_says() {
        let rows = rows(&history(&[0, 1 << 20]));
        let row = |name| &rows.iter().find(|(found, _)| *found == name).unwrap().1;
        assert_eq!(
            row("heap"),
            "48.0 MiB in blocks, 20.0 MiB live after the last cycle, 64.0 MiB of address range"
        );
        assert!(
            row("allocation").starts_with("1.00 MiB/s, 1.00 MiB since"),
            "{}",
            row("allocation")
        );
        assert!(row("cycles").contains("phase mark"), "{}", row("cycles"));
        assert!(
            row("stops").starts_with("6, median 4") && row("stops").contains("longest 900 µs"),
            "{}",
            row("stops")
        );
        assert_eq!(row("lately"), "since neap top began, 1 s: no stop");
        assert_eq!(row("threads"), "3");
    }

    #[test]
    fn a_cycle_was_stopped_for_all_of_its_stops() {
        let parts =
            Cycle { first_ns: 1_000, short_stops_ns: 2_000, pause_ns: 4_000, ..Cycle::default() };
        let said = last_cycle(&parts);
        assert!(said.contains(": stopped 7.00 µs, "), "{said}");
        let said = last_cycle(&Cycle { stops: 5, stops_ns: 9_000, ..parts });
        assert!(said.contains(": stopped 9.00 µs, "), "{said}");
    }

    #[test]
    fn a_minute_is_only_called_so_where_it_is_one() {
        let late = |history: &History| {
            let rows = rows(history);
            let (name, value) = rows.into_iter().nth(4).unwrap();
            (name, value, short_rows(history).swap_remove(2).0)
        };
        let mut watched = history(&[0; 13]);
        watched.first_had(2);
        let (name, value, short) = late(&watched);
        assert_eq!((&*name, &*short), ("lately", "watched 12s"));
        assert!(value.starts_with("since neap top began, 12 s: 4 stops, median 4"), "{value}");
        let (name, value, short) = late(&history(&[0; 62]));
        assert_eq!((&*name, &*value, &*short), ("last minute", "no stop", "last minute"));
    }

    #[test]
    fn before_the_first_cycle_nothing_is_said_of_a_last_one() {
        use neap_record::live::Page;
        let mut history = History::new(7, "small", HOUR);
        let live = Live { used_bytes: 300 << 10, threads: 1, ..Live::default() };
        let page = Page { live, cycle: Some(Cycle::default()), ..Page::default() };
        history.add(std::time::Duration::ZERO, page);
        let all: Vec<String> =
            rows(&history).iter().map(|(name, value)| format!("{name}: {value}")).collect();
        assert!(all[0].starts_with("heap: 300 KiB in blocks, no cycle yet, "), "{all:?}");
        assert!(all[1].ends_with("less than 512 KiB a thread since the start"), "{all:?}");
        assert!(all[2].ends_with("phase idle") && all[5] == "last cycle: none yet", "{all:?}");
    }

    #[test]
    fn a_cycle_that_cannot_be_read_is_the_one_before_it_or_none() {
        let seen = |cycles: &[Option<Cycle>]| {
            let mut history = History::new(7, "busy", HOUR);
            for (second, cycle) in cycles.iter().enumerate() {
                let live = Live { cycles: 3, ..Live::default() };
                let page = Page { live, cycle: *cycle, ..Page::default() };
                history.add(std::time::Duration::from_secs(second as u64), page);
            }
            let rows = rows(&history);
            [rows[0].1.clone(), rows[5].1.clone(), short_rows(&history)[3].1.clone()]
        };
        let cycle = Cycle { live_bytes: 20 << 20, concurrent: 1, ..Cycle::default() };
        let before = seen(&[Some(cycle), None]);
        assert!(before[0].contains("20.0 MiB live") && before[1].starts_with("conc"), "{before:?}");
        let none = seen(&[None]);
        assert!(none.iter().all(|row| row.contains('…') && !row.contains("no")), "{none:?}");
    }
}

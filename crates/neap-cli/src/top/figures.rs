//! A history in words: the rows that both the drawn and the printed view show. Pure.

use super::history::History;
use neap_record::Cycle;
use neap_record::live::PHASES;

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
pub fn rows(history: &History) -> Vec<(&'static str, String)> {
    let page = history.now();
    let live = page.live;
    let cycle = page.cycle.unwrap_or_default();
    let (allocation, cycles, phase) = now(history);
    let stopped =
        rate(history.rate(|page| page.live.pause_total_ns), &|ns| format!("{:.2} %", ns / 1e7));
    let part = |part| page.percentile(None, part).map_or("–".into(), duration);
    let recent =
        |part| page.percentile(Some(history.minute_ago()), part).map_or("–".into(), duration);
    // Figures of a cycle that never was are no figures.
    let had_cycle = live.cycles > 0;
    let found_live = match had_cycle {
        true => format!("{} live after the last cycle", bytes(cycle.live_bytes)),
        false => "no cycle yet".to_owned(),
    };
    let since_start = match live.handed_out_bytes {
        0 => "less than 512 KiB a thread".to_owned(),
        handed_out => bytes(handed_out),
    };
    let next = match had_cycle {
        true => format!(", next after {}", bytes(cycle.next_bytes)),
        false => String::new(),
    };
    vec![
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
                "{}, median {}, 99 % {}, longest {}; {stopped} of the time",
                live.pause_count,
                part(0.5),
                part(0.99),
                duration(live.pause_max_ns)
            ),
        ),
        (
            "last minute",
            format!(
                "stops: median {}, 99 % {}, longest {}",
                recent(0.5),
                recent(0.99),
                recent(1.0)
            ),
        ),
        ("last cycle", if had_cycle { last_cycle(&cycle) } else { "none yet".to_owned() }),
        ("threads", live.threads.to_string()),
    ]
}

/// The same where there is little room, what is most asked for first, each in a short line.
pub fn short_rows(history: &History) -> Vec<(&'static str, String)> {
    let page = history.now();
    let live = page.live;
    let before = history.minute_ago();
    let recent = live.pause_count.saturating_sub(before.live.pause_count);
    let longest = match recent {
        0 => "no stop".to_owned(),
        _ => {
            let longest = page.percentile(Some(before), 1.0).map_or("–".into(), duration);
            format!("longest {longest} of {recent}")
        }
    };
    let (allocation, cycles, phase) = now(history);
    let found_live = match (live.cycles > 0, page.cycle) {
        (true, Some(cycle)) => format!("{} live", bytes(cycle.live_bytes)),
        _ => "no cycle yet".to_owned(),
    };
    vec![
        ("stops", format!("longest {} of {}", duration(live.pause_max_ns), live.pause_count)),
        ("last minute", longest),
        ("heap", format!("{}, {found_live}", bytes(live.used_bytes))),
        ("allocation", allocation),
        ("cycles", format!("{}, {cycles}, {phase}", live.cycles)),
        ("threads", live.threads.to_string()),
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
    let stopped_ns =
        cycle.first_ns.saturating_add(cycle.short_stops_ns).saturating_add(cycle.pause_ns);
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
    use super::super::history::tests::history;
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
        assert!(row("last minute").starts_with("stops: median –"), "{}", row("last minute"));
        assert_eq!(row("threads"), "3");
    }

    #[test]
    fn before_the_first_cycle_nothing_is_said_of_a_last_one() {
        use neap_record::{Live, live::Page};
        let mut history = History::new(7, "small");
        let live = Live { used_bytes: 300 << 10, threads: 1, ..Live::default() };
        let page = Page { live, cycle: Some(Cycle::default()), ..Page::default() };
        history.add(std::time::Duration::ZERO, page);
        let all: Vec<String> =
            rows(&history).iter().map(|(name, value)| format!("{name}: {value}")).collect();
        assert!(all[0].starts_with("heap: 300 KiB in blocks, no cycle yet, "), "{all:?}");
        assert!(all[1].ends_with("less than 512 KiB a thread since the start"), "{all:?}");
        assert!(all[2].ends_with("phase idle") && all[5] == "last cycle: none yet", "{all:?}");
    }
}

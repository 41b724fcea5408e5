//! What was seen of a process so far: its last pages, and what follows from two of them. Pure.

use neap_record::live::Page;
use std::collections::VecDeque;
use std::time::Duration;

/// So many looks are kept, as many as a wide terminal has columns.
const KEPT: usize = 512;
/// What stops of the last minute are told apart by.
const MINUTE: Duration = Duration::from_secs(60);
/// Beside the looks, a page is kept for each such time of the last minute, however often somebody
/// looks. Larger: the minute is longer than one by so much; smaller: more is kept.
const BETWEEN_MARKS: Duration = Duration::from_millis(500);

/// One look.
pub struct Look {
    /// When, since watching began.
    pub at: Duration,
    /// What the page said.
    pub page: Page,
}

/// Of which time what is said of late is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// The last minute.
    Minute,
    /// Since watching began, which is less than a minute ago, in a process that is older: its page
    /// has no times of earlier stops.
    Watched(Duration),
    /// Longer than a minute: so long lies between two looks.
    Last(Duration),
}

/// The looks so far, at least one once something is asked of it.
pub struct History {
    id: u32,
    name: String,
    /// When watching began, since 1970.
    began: Duration,
    looks: VecDeque<Look>,
    /// Of the last minute and one before it.
    marks: VecDeque<Look>,
}

impl History {
    /// None yet, of the process of this number and name; `began` is now, since 1970.
    pub fn new(process: u32, name: &str, began: Duration) -> History {
        let (looks, marks) = Default::default();
        History { id: process, name: name.to_owned(), began, looks, marks }
    }

    /// Adds a look. Where a cycle was just being written, the last one is the one before it.
    pub fn add(&mut self, at: Duration, mut page: Page) {
        page.cycle = page.cycle.or_else(|| self.looks.back()?.page.cycle);
        if self.looks.len() == KEPT {
            self.looks.pop_front();
        }
        if self.marks.back().is_none_or(|mark| mark.at + BETWEEN_MARKS <= at) {
            self.marks.push_back(Look { at, page: page.clone() });
        }
        while self.marks.get(1).is_some_and(|mark| mark.at + MINUTE <= at) {
            self.marks.pop_front();
        }
        self.looks.push_back(Look { at, page });
    }

    /// Whose it is.
    pub fn title(&self) -> String {
        format!("neap top: process {} ({})", self.id, self.name)
    }

    /// The same in few words.
    pub fn short_title(&self) -> String {
        format!("{} {}", self.id, self.name)
    }

    /// The last look's page.
    pub fn now(&self) -> &Page {
        &self.looks.back().expect("drawn after a look").page
    }

    /// The page of a minute ago, or of the look that comes closest to that, and of which time what
    /// happened since then is. No page: all that the last one tells of happened in that time.
    pub fn of_late(&self) -> (Option<&Page>, Span) {
        let last = self.looks.back().expect("drawn after a look");
        let first = self.marks.front().expect("a first look is kept");
        let since = last.at.saturating_sub(first.at);
        if since >= MINUTE {
            let is_minute = since <= MINUTE + 2 * BETWEEN_MARKS;
            return (Some(&first.page), if is_minute { Span::Minute } else { Span::Last(since) });
        }
        let now = self.began.saturating_add(last.at);
        let made = Duration::from_nanos(last.page.began_unix_ns);
        match now.checked_sub(made) {
            Some(age) if age <= MINUTE && last.page.stops_before == 0 => (None, Span::Minute),
            _ => (Some(&first.page), Span::Watched(since)),
        }
    }

    /// How much `figure` grew in a second, by the looks of the last two seconds (or the last two
    /// looks); None before there are two.
    pub fn rate(&self, figure: impl Fn(&Page) -> u64) -> Option<f64> {
        let last = self.looks.back()?;
        let since = last.at.saturating_sub(Duration::from_secs(2));
        let before = self.looks.len().checked_sub(2)?;
        let from = self.looks.iter().position(|look| look.at >= since)?.min(before);
        growth(&self.looks[from], last, &figure)
    }

    /// The same between each two neighbouring looks, the last `most` of them.
    pub fn rates(&self, most: usize, figure: impl Fn(&Page) -> u64) -> Vec<u64> {
        let from = self.looks.len().saturating_sub(most + 1);
        self.looks
            .range(from..)
            .zip(self.looks.range(from..).skip(1))
            .map(|(before, after)| growth(before, after, &figure).unwrap_or(0.0) as u64)
            .collect()
    }

    /// A figure in the last `most` looks.
    pub fn values(&self, most: usize, figure: impl Fn(&Page) -> u64) -> Vec<u64> {
        let from = self.looks.len().saturating_sub(most);
        self.looks.range(from..).map(|look| figure(&look.page)).collect()
    }
}

fn growth(before: &Look, after: &Look, figure: &impl Fn(&Page) -> u64) -> Option<f64> {
    let seconds = after.at.checked_sub(before.at)?.as_secs_f64();
    let grown = figure(&after.page).saturating_sub(figure(&before.page));
    (seconds > 0.0).then(|| grown as f64 / seconds)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use neap_record::{Cycle, Live, live::BUCKETS};

    impl History {
        /// At the first look there were only so many of the stops.
        pub fn first_had(&mut self, stops: u64) {
            let page = &mut self.looks[0].page;
            page.live.pause_count = stops;
            page.stops[neap_record::live::bucket(400_000)] = stops;
            self.marks[0].page = page.clone();
        }
    }

    /// Since 1970, when pages of these tests were made.
    pub const HOUR: Duration = Duration::from_secs(3600);

    /// A history of looks a second apart, of a process that is an hour old, with so many bytes
    /// handed out at each.
    pub fn history(handed_out: &[u64]) -> History {
        let mut history = History::new(7, "client", HOUR);
        for (second, &bytes) in handed_out.iter().enumerate() {
            let live = Live {
                handed_out_bytes: bytes,
                used_bytes: 48 << 20,
                reserved_bytes: 64 << 20,
                threads: 3,
                cycles: 5,
                phase: 3,
                pause_count: 6,
                pause_total_ns: 3_000_000,
                pause_max_ns: 900_000,
            };
            let cycle =
                Cycle { number: 5, live_bytes: 20 << 20, next_bytes: 20 << 20, ..Cycle::default() };
            let mut stops = vec![0; BUCKETS];
            stops[neap_record::live::bucket(400_000)] = 6;
            let cycle = Some(cycle);
            let page = Page { process: 7, live, cycle, stops, ..Page::default() };
            history.add(Duration::from_secs(second as u64), page);
        }
        history
    }

    #[test]
    fn rates_are_per_second() {
        let handed_out = |page: &Page| page.live.handed_out_bytes;
        assert_eq!(history(&[10]).rate(handed_out), None);
        assert_eq!(history(&[10, 30]).rate(handed_out), Some(20.0));
        assert_eq!(history(&[0, 0, 10, 30, 90]).rate(handed_out), Some(40.0));
        assert_eq!(history(&[10, 30, 90]).rates(5, handed_out), [20, 60]);
        assert_eq!(history(&[10, 30, 90]).rates(1, handed_out), [60]);
        // A figure that starts again is no growth.
        assert_eq!(history(&[90, 10]).rate(handed_out), Some(0.0));
    }

    /// A page that was made `age` before the first look, with so many stops in it.
    fn page_of(age: u64, stops: u64) -> Page {
        let began_unix_ns = (HOUR - Duration::from_secs(age)).as_nanos() as u64;
        let live = Live { pause_count: stops, ..Live::default() };
        Page { began_unix_ns, live, ..Page::default() }
    }

    /// How many stops came of late, and in which time.
    fn late(history: &History) -> (u64, Span) {
        let (before, span) = history.of_late();
        let count = before.map_or(0, |page| page.live.pause_count);
        (history.now().live.pause_count - count, span)
    }

    #[test]
    fn the_last_minute_of_a_process_is_known_from_its_start_or_from_the_first_look_on() {
        // Old, and looked at twice a second: each look sees a stop more.
        let mut history = History::new(7, "client", HOUR);
        for look in 0..400 {
            history.add(Duration::from_millis(500 * look), page_of(600, 100 + look));
            let wanted = match look {
                0..120 => (look, Span::Watched(Duration::from_millis(500 * look))),
                _ => (120, Span::Minute),
            };
            assert_eq!(late(&history), wanted, "{look}");
        }
        // Young: all stops are the last minute's, until it is a minute old.
        let mut history = History::new(7, "client", HOUR);
        for second in 0..100 {
            history.add(Duration::from_secs(second), page_of(20, 50 + second));
            let wanted = match second {
                0..=40 => (50 + second, Span::Minute),
                41..60 => (second, Span::Watched(Duration::from_secs(second))),
                _ => (60, Span::Minute),
            };
            assert_eq!(late(&history), wanted, "{second}");
        }
        // Young, but with stops that its parent had; and a clock that was set back.
        let child = Page { stops_before: 50, ..page_of(20, 50) };
        let ahead = page_of(0, 50);
        for page in [child, Page { began_unix_ns: u64::MAX, ..ahead }] {
            let mut history = History::new(7, "client", HOUR);
            history.add(Duration::ZERO, page);
            assert_eq!(late(&history), (0, Span::Watched(Duration::ZERO)));
        }
    }

    #[test]
    fn a_minute_is_one_however_often_somebody_looks() {
        for (milliseconds, wanted) in [(10, 60_000), (700, 60_200), (50_000, 100_000)] {
            let mut history = History::new(7, "client", HOUR);
            for look in 0..200_000 / milliseconds {
                let stops = look * milliseconds;
                history.add(Duration::from_millis(stops), page_of(600, stops));
            }
            let (stops, span) = late(&history);
            assert!(stops.abs_diff(wanted) <= 700, "{stops} {wanted}");
            let is_minute = matches!(span, Span::Minute);
            assert_eq!(is_minute, milliseconds < 1000, "{span:?}");
        }
    }

    #[test]
    fn old_looks_are_forgotten() {
        let history = history(&vec![1; KEPT + 9]);
        assert_eq!(history.values(usize::MAX, |_| 1).len(), KEPT);
    }
}

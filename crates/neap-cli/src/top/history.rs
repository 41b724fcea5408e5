//! What was seen of a process so far: its last pages, and what follows from two of them. Pure.

use neap_record::live::Page;
use std::collections::VecDeque;
use std::time::Duration;

/// So many looks are kept, as many as a wide terminal has columns.
const KEPT: usize = 512;

/// One look.
pub struct Look {
    /// When, since watching began.
    pub at: Duration,
    /// What the page said.
    pub page: Page,
}

/// The looks so far, at least one once something is asked of it.
pub struct History {
    id: u32,
    name: String,
    looks: VecDeque<Look>,
}

impl History {
    /// None yet, of the process of this number and name.
    pub fn new(process: u32, name: &str) -> History {
        History { id: process, name: name.to_owned(), looks: VecDeque::new() }
    }

    /// Adds a look.
    pub fn add(&mut self, at: Duration, page: Page) {
        if self.looks.len() == KEPT {
            self.looks.pop_front();
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

    /// The page of a minute ago, or of the first look.
    pub fn minute_ago(&self) -> &Page {
        let last = self.looks.back().expect("drawn after a look").at;
        let since = last.saturating_sub(Duration::from_secs(60));
        let look = self.looks.iter().rev().find(|look| look.at <= since);
        &look.or(self.looks.front()).expect("drawn after a look").page
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
        }
    }

    /// A history of looks a second apart, with so many bytes handed out at each.
    pub fn history(handed_out: &[u64]) -> History {
        let mut history = History { id: 7, name: "client".into(), looks: VecDeque::new() };
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
            let page = Page { process: 7, began_unix_ns: 0, live, cycle: Some(cycle), stops };
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

    #[test]
    fn old_looks_are_forgotten() {
        let history = history(&vec![1; KEPT + 9]);
        assert_eq!(history.values(usize::MAX, |_| 1).len(), KEPT);
    }
}

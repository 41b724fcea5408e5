//! When a run began, for the programs that belong to it: none of them records over what another of
//! them has recorded to the same file.
//!
//! Invariant: what was written before the run is older than that time by the file system's clock,
//! and what is written in it is not. Single-threaded. Called by `run`.

use neap_record::RUN_BEGAN;
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::env::var_os;
use std::ffi::OsString;
use std::time::{Duration, Instant};

const STATS: &str = "NEAP_STATS";
/// The coarse time is a few milliseconds behind, unless a clock is set back meanwhile.
const LONGEST: Duration = Duration::from_millis(200);

/// The variable that says when the run began; None where nothing is recorded, or a run within
/// another records where that one does.
pub fn began(variables: &[(String, OsString)]) -> Option<(&'static str, OsString)> {
    let name = RUN_BEGAN.to_str().expect("it is text");
    let is_of_ours = variables.iter().any(|(variable, _)| variable == STATS);
    let is_inherited = var_os(STATS).is_some() && var_os(name).is_none();
    (is_of_ours || is_inherited).then(|| (name, now_ns().to_string().into()))
}

/// The coarse time, by which files are dated at the earliest, once it is past what the clock says
/// now, by which they are dated at the latest.
fn now_ns() -> i128 {
    let of = |time: Timespec| i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    let at_latest = of(clock_gettime(ClockId::Realtime));
    let began = Instant::now();
    loop {
        let at_earliest = of(clock_gettime(ClockId::RealtimeCoarse));
        if at_earliest > at_latest || began.elapsed() > LONGEST {
            return at_earliest;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_run_are_told_from_earlier_ones() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        let written = |name: &str| {
            let file = folder.path().join(name);
            std::fs::write(&file, "text").unwrap();
            let there = std::fs::metadata(file).unwrap();
            i128::from(there.mtime()) * 1_000_000_000 + i128::from(there.mtime_nsec())
        };
        for _ in 0..100 {
            let earlier = written("earlier");
            let began = now_ns();
            assert!(earlier < began && began <= written("later"));
        }
    }

    #[test]
    fn only_what_records_is_told() {
        assert_eq!(began(&[("NEAP_GROWTH".to_owned(), "1".into())]), None);
        assert!(began(&[(STATS.to_owned(), "x".into())]).is_some());
    }
}

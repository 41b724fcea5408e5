//! What kind of machine figures were taken on: never its name, only what decides the figures.
//!
//! Everything is read from the system's own files; what cannot be read says `unknown`. Called once,
//! by `main`.

use std::fs;
use std::thread;

use serde::{Deserialize, Serialize};

/// A kind of machine.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Machine {
    /// The processor's name, as it gives it.
    pub processor: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// Memory in GiB, rounded.
    pub memory_gib: u64,
    /// The kernel's release.
    pub kernel: String,
    /// The distribution's name and version.
    pub distribution: String,
}

impl Machine {
    /// The machine we run on.
    pub fn this() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let or_unknown = |text: Option<String>| {
            text.filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".to_owned())
        };
        let memory_kib: u64 = field(&read("/proc/meminfo"), "MemTotal", ':')
            .and_then(|text| text.split_whitespace().next().and_then(|number| number.parse().ok()))
            .unwrap_or(0);
        Self {
            processor: or_unknown(field(&read("/proc/cpuinfo"), "model name", ':')),
            cores: thread::available_parallelism().map_or(1, usize::from),
            memory_gib: (memory_kib + (1 << 19)) >> 20,
            kernel: or_unknown(Some(read("/proc/sys/kernel/osrelease").trim().to_owned())),
            distribution: or_unknown(
                field(&read("/etc/os-release"), "PRETTY_NAME", '=')
                    .map(|text| text.trim_matches('"').to_owned()),
            ),
        }
    }

    /// One line for the head of a table.
    pub fn line(&self) -> String {
        let plural = if self.cores == 1 { "" } else { "s" };
        format!(
            "{}, {} core{plural}, {} GiB, Linux {}, {}",
            self.processor, self.cores, self.memory_gib, self.kernel, self.distribution
        )
    }

    /// A short name for a file: processor and cores, so that results of like machines lie side by
    /// side.
    pub fn slug(&self) -> String {
        let mut slug = String::new();
        for character in self.processor.to_lowercase().chars() {
            if character.is_ascii_alphanumeric() {
                slug.push(character);
            } else if !slug.ends_with('-') && !slug.is_empty() {
                slug.push('-');
            }
        }
        format!("{}-{}-cores", slug.trim_matches('-'), self.cores)
    }
}

/// Seconds that all processors together have been busy since the machine started, also for other
/// programs and other guests of the host.
pub fn busy_seconds() -> Option<f64> {
    busy_of(&fs::read_to_string("/proc/stat").ok()?)
}

/// The kernel counts in hundredths of a second: user, nice, system, idle, waiting, two kinds of
/// interrupts, stolen by the host.
fn busy_of(stat: &str) -> Option<f64> {
    let counts: Vec<f64> = stat
        .lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    let busy = counts.get(..8)?.iter().sum::<f64>() - counts[3] - counts[4];
    Some(busy / 100.0)
}

/// The value of the first line `name SEPARATOR value`.
fn field(text: &str, name: &str, separator: char) -> Option<String> {
    text.lines()
        .filter_map(|line| line.split_once(separator))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_files_we_read() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2.00GHz\nmodel name\t: Other\n";
        assert_eq!(field(text, "model name", ':').as_deref(), Some("Some CPU @ 2.00GHz"));
        assert_eq!(
            field("PRETTY_NAME=\"A System\"\n", "PRETTY_NAME", '=').as_deref(),
            Some("\"A System\"")
        );
        assert_eq!(field(text, "nothing", ':'), None);
    }

    #[test]
    fn slug_and_line_are_plain() {
        let machine = Machine {
            processor: "Intel(R) Xeon(R) CPU @ 2.20GHz".to_owned(),
            cores: 4,
            memory_gib: 16,
            kernel: "6.12.1".to_owned(),
            distribution: "Debian".to_owned(),
        };
        assert_eq!(machine.slug(), "intel-r-xeon-r-cpu-2-20ghz-4-cores");
        assert_eq!(
            machine.line(),
            "Intel(R) Xeon(R) CPU @ 2.20GHz, 4 cores, 16 GiB, Linux 6.12.1, Debian"
        );
    }

    #[test]
    fn idle_and_waiting_are_not_busy() {
        assert_eq!(busy_of("cpu  100 20 30 9999 888 4 5 6 77 0\ncpu0 1 2\n"), Some(1.65));
        assert_eq!(busy_of("cpu  1 2\n"), None);
        assert_eq!(busy_of(""), None);
    }

    #[test]
    fn this_machine_is_known() {
        let machine = Machine::this();
        assert!(machine.cores >= 1);
        assert_ne!(machine.kernel, "unknown");
    }
}

//! `neap doctor`: what this machine allows, what a program started here would use, why, and what to
//! change.
//!
//! Invariant: everything it says was tried out in this process a moment ago. Single-threaded.
//! Called by `main`.

use neap_core::probe;
use std::fmt::Write;

/// Where the kernel says which memory it gives huge pages.
const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// The whole report.
pub fn text() -> String {
    let tried = probe::watches();
    let width = tried.iter().map(|watch| watch.name.len()).max().unwrap_or(0);
    let mut out = String::from("Ways to collect beside the running program (NEAP_WATCH):\n");
    for watch in &tried {
        let works = if watch.refused.is_none() { "works  " } else { "refused" };
        let asked = if watch.automatic { "" } else { " (by request only)" };
        let _ = writeln!(out, "  {:width$}  {works}  {}{asked}", watch.name, watch.meaning);
        if let Some(why) = &watch.refused {
            let _ = writeln!(out, "  {:width$}           {why}.", "");
        }
    }
    out.push('\n');
    let asked = std::env::var("NEAP_WATCH").ok();
    out.push_str(&chosen(&tried, probe::chosen(), asked.as_deref()));
    out.push_str(&huge_pages(&std::fs::read_to_string(HUGE_PAGES).unwrap_or_default()));
    out
}

/// The table of costs, for so many bytes of memory.
pub fn costs(bytes: usize) -> String {
    let ms = |time: std::time::Duration| format!("{:.3}", time.as_secs_f64() * 1e3);
    let or_none = |time: Option<_>| time.map_or("-".to_owned(), ms);
    let mut out = format!(
        "Costs for {} MiB of memory, one run (ms; first write µs). fork: arming is making the child.\n\
         {:10} {:>6} {:>10} {:>10} {:>12} {:>10} {:>12}\n",
        bytes >> 20,
        "watch",
        "pages",
        "protect",
        "ask clean",
        "ask 1/64",
        "ask all",
        "first write"
    );
    for (name, huge, cost) in probe::costs(bytes) {
        let pages = if huge { "2 MiB" } else { "4 KiB" };
        let _ = match cost {
            Ok(cost) => writeln!(
                out,
                "{name:10} {pages:>6} {:>10} {:>10} {:>12} {:>10} {:>12.2}",
                ms(cost.protect),
                or_none(cost.ask_clean),
                or_none(cost.ask_some),
                or_none(cost.ask_all),
                cost.first_write.as_secs_f64() * 1e6
            ),
            Err(refused) => writeln!(out, "{name:10} {pages:>6} refused: {refused}"),
        };
    }
    out
}

/// What would be used, and why. What is no watch has no effect, which the library has said.
fn chosen(tried: &[probe::Tried], chosen: Result<&str, &str>, asked: Option<&str>) -> String {
    let is_watch = |asked: &&str| tried.iter().any(|watch| watch.name == *asked);
    let best = tried
        .iter()
        .find(|watch| watch.automatic && watch.refused.is_none())
        .map_or("none", |watch| watch.name);
    match (chosen, asked.filter(is_watch)) {
        (Ok(name), Some(asked)) => {
            format!(
                "A program started here uses {name}, since NEAP_WATCH={asked}; NEAP_WATCH=auto \
                 would take {best}.\n"
            )
        }
        (Ok(name), None) => {
            format!(
                "A program started here uses {name}, the first of pagemap, fork and none that \
                 works: that is the default, as NEAP_WATCH=auto would take {best}.\n"
            )
        }
        (Err(name), _) => format!(
            "A program started here stops the world, since NEAP_WATCH={name} is refused; \
             NEAP_WATCH=auto would take {best}.\n"
        ),
    }
}

/// What the kernel's setting means for the heap. `enabled` is the file's text, with the word in
/// force in brackets.
fn huge_pages(enabled: &str) -> String {
    let word = enabled.split(['[', ']']).nth(1).unwrap_or("");
    match word {
        "always" | "madvise" => {
            format!(
                "Huge pages are allowed ({HUGE_PAGES}: {word}); NEAP_HUGE_PAGES says what the heap \
                 asks for.\n"
            )
        }
        "never" => format!(
            "Huge pages are switched off, and large heaps are marked more slowly than need be. To \
             change: echo madvise > {HUGE_PAGES}\n"
        ),
        _ => format!("Whether there are huge pages is not known: {HUGE_PAGES} cannot be read.\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_names_every_watch_and_what_is_used() {
        let text = text();
        for name in ["pagemap", "fork", "none"] {
            assert!(text.contains(&format!("\n  {name} ")), "{text}");
        }
        assert!(text.contains("A program started here "), "{text}");
    }

    #[test]
    fn what_is_used_has_its_reason() {
        let tried = probe::watches();
        for (used, asked, wanted) in [
            (Ok("pagemap"), None, "uses pagemap, the first of pagemap, fork"),
            (Ok("pagemap"), Some("auto"), "uses pagemap, the first of pagemap, fork"),
            (Ok("pagemap"), Some("no such"), "uses pagemap, the first of pagemap, fork"),
            (Ok("none"), Some("none"), "uses none, since NEAP_WATCH=none; NEAP_WATCH=auto would"),
            (Err("fork"), Some("fork"), "stops the world, since NEAP_WATCH=fork is refused"),
        ] {
            let said = chosen(&tried, used, asked);
            assert!(said.contains(wanted), "{said}");
        }
    }

    #[test]
    fn settings_of_huge_pages_by_table() {
        for (enabled, wanted) in [
            ("always [madvise] never\n", "are allowed"),
            ("always madvise [never]\n", "echo madvise"),
            ("", "not known"),
        ] {
            assert!(huge_pages(enabled).contains(wanted), "{enabled}");
        }
    }
}

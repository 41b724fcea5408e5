//! What this machine allows, for `neap doctor`: each watch tried out, and what would be chosen.
//!
//! Invariant: says what was seen to happen in this process, not what a version promises; changes
//! nothing that lasts. Called by a program that uses no heap.

mod beside;
mod cost;
pub mod sharing;

use core::fmt::Write;
use rust_alloc::{format, string::String, string::ToString, vec::Vec};

pub use cost::Cost;

/// What a fuzzer calls with any bytes in place of the kernel's texts.
#[cfg(fuzzing)]
pub use crate::sys::process::mutated_texts::parse as parse_texts;

use crate::addr::CHUNK_BYTES;
use crate::options::Options;
use crate::sys::protection::page_faults::FOR_THE_KERNEL;
use crate::sys::refusal::Refusal;
use crate::watch::choose::{Watching, choose};
use rustix::io::Errno;

/// One way to watch, tried out.
pub struct Tried {
    /// The word for it in `NEAP_WATCH`.
    pub name: &'static str,
    /// Whether `NEAP_WATCH=auto` considers it.
    pub automatic: bool,
    /// What it is.
    pub meaning: &'static str,
    /// Why it does not work here, and what to change; None where it works.
    pub refused: Option<String>,
}

/// Every way to watch, tried out, in the order of preference.
pub fn watches() -> Vec<Tried> {
    Watching::ALL
        .into_iter()
        .map(|watching| Tried {
            name: watching.name(),
            automatic: Watching::IN_ORDER.contains(&watching),
            meaning: watching.meaning(),
            refused: watching.try_out().err().map(|refusal| explain(watching, &refusal)),
        })
        .collect()
}

/// What each watch that works costs for `bytes` bytes of memory, of pages of 4 KiB and then of 2
/// MiB. An error says what was refused meanwhile.
pub fn costs(bytes: usize) -> Vec<(&'static str, bool, Result<Cost, String>)> {
    let bytes = bytes.next_multiple_of(CHUNK_BYTES).max(CHUNK_BYTES);
    let mut measured = Vec::new();
    for watching in Watching::ALL.into_iter().filter(|watching| watching.try_out().is_ok()) {
        for huge in [false, true] {
            if let Some(cost) = cost::measure(watching, bytes, huge) {
                let cost = cost.map_err(|refusal| refusal.to_string());
                measured.push((watching.name(), huge, cost));
            }
        }
    }
    measured
}

/// What a program would use that is started now with this environment; an error names what was
/// asked for and does not work.
pub fn chosen() -> Result<&'static str, &'static str> {
    choose(Options::from_environment().watch)
        .map(Watching::name)
        .map_err(|refused| refused.0.name())
}

/// What was refused, and what to do about it.
fn explain(watching: Watching, refusal: &Refusal) -> String {
    let mut text = format!("{refusal}. ");
    let advice = match refusal {
        _ if refusal.is("userfaultfd", Errno::PERM) => {
            "A seccomp filter refuses it, as container engines' default ones do: allow the system \
             call userfaultfd in the container's profile"
        }
        _ if refusal.is("userfaultfd", Errno::NOSYS) => {
            "The kernel is built without it (CONFIG_USERFAULTFD), or a sandbox hides it"
        }
        _ if refusal.is("UFFDIO_API", Errno::INVAL) => match watching {
            Watching::Snapshot => {
                "The kernel is too old to protect pages that nobody has touched: that came with \
                 Linux 6.4"
            }
            _ => "The kernel is too old for asynchronous write protection: it came with Linux 6.7",
        },
        _ if refusal.is("PAGEMAP_SCAN", Errno::NOTTY) => {
            "The kernel is too old for this ioctl: it came with Linux 6.7"
        }
        _ if refusal.call == FOR_THE_KERNEL => {
            "Only who may trace processes gets one: allow it to all (sysctl \
             vm.unprivileged_userfaultfd=1), give the user read and write access to \
             /dev/userfaultfd, or the program the capability CAP_SYS_PTRACE"
        }
        _ if refusal.is("unshare", Errno::PERM) => {
            "A seccomp filter refuses it: allow the system call unshare with CLONE_FILES"
        }
        _ if refusal.call == "/proc/self/pagemap" => "Mount /proc where the program runs",
        _ if refusal.is("clone", Errno::AGAIN) => {
            "The limit on processes is reached: raise RLIMIT_NPROC (ulimit -u) or the cgroup's \
             pids.max"
        }
        _ if refusal.is("clone", Errno::NOMEM) => {
            "There is no memory to promise to a copy: allow overcommit (vm.overcommit_memory=0 or \
             1)"
        }
        _ if refusal.call == "clone" || refusal.call == "waitid" => {
            "A seccomp filter refuses it, or the kernel is older than 5.4: allow the system calls \
             clone and waitid"
        }
        _ => "",
    };
    let _ = match advice {
        "" => write!(text, "{} needs it", watching.name()),
        advice => write!(text, "{advice}"),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_come_with_advice() {
        let refusal = Refusal::new("userfaultfd", Errno::PERM);
        let text = explain(Watching::Pagemap, &refusal);
        assert!(text.starts_with("userfaultfd: ") && text.contains("seccomp"), "{text}");
        let text = explain(Watching::Pagemap, &Refusal::wrong("PAGEMAP_SCAN"));
        assert_eq!(text, "PAGEMAP_SCAN does not do what it should. pagemap needs it");
    }

    #[test]
    fn every_watch_is_tried_and_one_is_chosen() {
        let tried = watches();
        assert!(tried.iter().any(|watch| watch.name == "none" && watch.refused.is_none()));
        assert!(chosen().is_ok_and(|name| tried.iter().any(|watch| watch.name == name)));
    }
}

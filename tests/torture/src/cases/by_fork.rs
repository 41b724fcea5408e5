//! Cases of cycles that a child process marks: nothing of them is left, nothing of them is seen, and a child that dies costs nothing but time.
//!
//! Invariant: as for all cases. Called by `cases`, on the main thread of a new process.

use super::{Case, List, set_option};
use crate::ensure;
use crate::hidden::pattern;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};
use neap_core::api::{self, Kind, link};

/// The table.
pub const CASES: &[Case] = &[
    ("fork-leaves-nothing-behind", || leaves_nothing_behind(500)),
    ("fork-children-killed", children_killed),
    ("fork-and-weak-links", weak_links),
];

/// What takes too long for every day.
pub const LONG: &[Case] =
    &[("fork-leaves-nothing-behind-for-long", || leaves_nothing_behind(10_000))];

/// Enough objects for a cycle beside the program.
const OBJECTS: usize = 20_000;

static CHILD_SIGNALS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count_child_signal(_: i32) {
    CHILD_SIGNALS.fetch_add(1, Relaxed);
}

/// Open descriptors, and processes whose parent this is.
fn open_and_children() -> (usize, usize) {
    let count = |path: &str| std::fs::read_dir(path).map(Iterator::count);
    let children = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    let open = count("/proc/self/fd");
    ensure!(open.is_ok(), "/proc is not there");
    (open.unwrap_or(0), children.split_whitespace().count())
}

fn leaves_nothing_behind(cycles: u32) {
    set_option("watch", "fork");
    #[allow(clippy::disallowed_methods)] // The program under test, not the collector.
    // SAFETY: a handler that only counts.
    unsafe {
        libc::signal(libc::SIGCHLD, count_child_signal as *const () as usize)
    };
    let list = List::new(OBJECTS);
    for _ in 0..10 {
        ensure!(api::collect(), "no collection");
    }
    let before = open_and_children();
    for _ in 0..cycles {
        ensure!(api::collect(), "no collection");
        // SAFETY: asks for any child that has ended, without waiting.
        let waited = unsafe { libc::waitpid(-1, core::ptr::null_mut(), libc::WNOHANG) };
        ensure!(waited == -1, "the program's wait saw a child of the collector: {waited}");
    }
    ensure!(open_and_children() == before, "{before:?} became {:?}", open_and_children());
    ensure!(CHILD_SIGNALS.load(Relaxed) == 0, "the program got SIGCHLD");
    ensure!(api::statistics().cycles >= u64::from(cycles), "cycles are missing");
    list.check();
}

/// Kills whatever marks for this process, until told to stop; counts how many.
fn kill_markers(stop: &AtomicBool) -> u32 {
    let own = std::process::id().to_string();
    let mut killed = 0;
    while !stop.load(Relaxed) {
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let status = std::fs::read_to_string(entry.path().join("status")).unwrap_or_default();
            let field =
                |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            if field("Name:") == Some("neap-mark") && field("PPid:") == Some(own.as_str()) {
                let process = field("Pid:").and_then(|number| number.parse().ok()).unwrap_or(0);
                // SAFETY: a signal to a child of this process that marks.
                killed += unsafe { libc::kill(process, libc::SIGKILL) == 0 && process > 1 } as u32;
            }
        }
    }
    killed
}

fn children_killed() {
    set_option("watch", "fork");
    set_option("check", "3");
    let list = List::new(10 * OBJECTS);
    let stop = AtomicBool::new(false);
    let killed = std::thread::scope(|scope| {
        let killer = scope.spawn(|| kill_markers(&stop));
        for _ in 0..30 {
            ensure!(api::collect(), "no collection");
        }
        stop.store(true, Relaxed);
        killer.join().unwrap_or(0)
    });
    ensure!(killed > 0, "no child was killed");
    list.check();
}

const LINKED: usize = 64;

/// An object behind a link and one behind that; both hold patterns.
type Pair = [usize; 4];

/// Makes pairs that only links lead to.
#[inline(never)]
fn link_pairs(links: &[AtomicUsize]) {
    for (number, hidden) in links.iter().enumerate() {
        let [first, second] = [0, 1].map(|_| api::allocate(32, Kind::Conservative).cast::<Pair>());
        ensure!(!first.is_null() && !second.is_null(), "no memory for a pair");
        let id = number as u64;
        // SAFETY: fresh objects of four words; the link's word stays until it is unregistered.
        unsafe {
            second.write([0, pattern(2, id, 1), pattern(2, id, 2), 0]);
            first.write([second as usize, pattern(1, id, 1), pattern(1, id, 2), 0]);
            hidden.store(!(first as usize), Relaxed);
            let address = core::ptr::from_ref(hidden) as usize;
            let registered = link::register(link::Length::Long, address, first as usize);
            ensure!(registered.is_ok(), "no memory for a link");
        }
    }
}

/// Reads a link, and moves what is behind its object to the holder: from now on the holder is all that leads to either. False if the link is cleared.
#[inline(never)]
fn take_pair(hidden: &AtomicUsize, holder: *mut Pair) -> bool {
    api::hold_collections();
    let word = hidden.load(Relaxed);
    if word != 0 {
        let first = !word as *mut Pair;
        // SAFETY: the link was not cleared, so its object is there; the holder has four words.
        unsafe {
            (*holder)[0] = first as usize;
            (*holder)[1] = (*first)[0];
            (*first)[0] = 0;
        }
    }
    api::release_collections();
    word != 0
}

#[inline(never)]
fn check_pair(holder: *const Pair, id: u64) {
    // SAFETY: the holder has four words.
    let words = unsafe { holder.read() };
    for (which, address) in [(1, words[0]), (2, words[1])] {
        let is_there =
            api::object_at(address).is_some_and(|info| info.start.as_ptr() as usize == address);
        ensure!(is_there, "lost: object {which} of pair {id}, which a link brought back");
        // SAFETY: an object of four words.
        let object = unsafe { (address as *const Pair).read() };
        ensure!(
            object == [0, pattern(which, id, 1), pattern(which, id, 2), 0],
            "stale contents: object {which} of pair {id}"
        );
    }
}

/// A weak link that is read while a child marks brings its object back, and all that is behind it.
fn weak_links() {
    set_option("watch", "fork");
    set_option("check", "3");
    let list = List::new(10 * OBJECTS);
    let links: Box<[AtomicUsize]> = (0..LINKED).map(|_| AtomicUsize::new(0)).collect();
    let holders: Vec<_> =
        (0..LINKED).map(|_| api::allocate(32, Kind::Uncollectable).cast::<Pair>()).collect();
    let (mut taken, mut cleared) = (0, 0);
    for _ in 0..40 {
        link_pairs(&links);
        let mut found = [false; LINKED];
        std::thread::scope(|scope| {
            let collecting = scope.spawn(api::collect);
            for (number, hidden) in links.iter().enumerate() {
                std::thread::sleep(core::time::Duration::from_micros(50));
                found[number] = take_pair(hidden, holders[number]);
            }
            ensure!(collecting.join().unwrap_or(false), "no collection");
        });
        ensure!(api::collect(), "no collection");
        for (number, hidden) in links.iter().enumerate() {
            if found[number] {
                check_pair(holders[number], number as u64);
                taken += 1;
            } else {
                cleared += 1;
            }
            link::unregister(link::Length::Long, core::ptr::from_ref(hidden) as usize);
            // SAFETY: the holder has four words.
            unsafe { holders[number].write([0; 4]) };
        }
    }
    ensure!(taken > 0 && cleared > 0, "{taken} links were read in time, {cleared} were cleared");
    list.check();
}

//! Cases of cycles that a child process marks: nothing of them is left, nothing of them is seen,
//! and a child that dies costs nothing but time.
//!
//! Invariant: as for all cases. Called by `cases`, on the main thread of a new process.

use super::{Case, List, set_option};
use crate::shadow::hidden::pattern;
use crate::{ensure, fail};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};
use core::time::Duration;
use neap_core::api::handles::{self, DomainId, Handle, HandleKind};
use neap_core::api::{self, Kind, link};
use std::time::Instant;

/// The table.
pub const CASES: &[Case] = &[
    ("fork-leaves-nothing-behind", || leaves_nothing_behind(500)),
    ("fork-children-killed", children_killed),
    ("fork-and-weak-links", weak_links),
    ("fork-and-weak-references-let-go", || references_let_go("fork")),
    ("snapshot-and-weak-references-let-go", || references_let_go("snapshot")),
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
    // The least: the collector's thread has a file open now and then, to see what its control
    // groups say.
    let looks = (0..20).map(|_| {
        std::thread::sleep(Duration::from_millis(2));
        open_and_children()
    });
    let before = looks.min().unwrap_or_default();
    for _ in 0..cycles {
        ensure!(api::collect(), "no collection");
        // SAFETY: asks for any child that has ended, without waiting.
        let waited = unsafe { libc::waitpid(-1, core::ptr::null_mut(), libc::WNOHANG) };
        ensure!(waited == -1, "the program's wait saw a child of the collector: {waited}");
    }
    let is_as_before = (0..50).any(|_| {
        std::thread::sleep(Duration::from_millis(2));
        open_and_children() == before
    });
    ensure!(is_as_before, "{before:?} became {:?}", open_and_children());
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

/// Two objects, of which the first, that is given, leads to the second.
#[inline(never)]
fn new_pair(id: u64) -> *mut Pair {
    let [first, second] = [0, 1].map(|_| api::allocate(32, Kind::Conservative).cast::<Pair>());
    ensure!(!first.is_null() && !second.is_null(), "no memory for a pair");
    // SAFETY: fresh objects of four words.
    unsafe {
        second.write([0, pattern(2, id, 1), pattern(2, id, 2), 0]);
        first.write([second as usize, pattern(1, id, 1), pattern(1, id, 2), 0]);
    }
    first
}

/// Has a hidden pointer lead to an object until that dies.
#[inline(never)]
fn link_to(hidden: &AtomicUsize, first: *mut Pair) {
    hidden.store(!(first as usize), Relaxed);
    let address = core::ptr::from_ref(hidden) as usize;
    // SAFETY: the link's word stays until it is unregistered.
    let registered = unsafe { link::register(link::Length::Long, address, first as usize) };
    ensure!(registered.is_ok(), "no memory for a link");
}

fn unlink(hidden: &AtomicUsize) {
    link::unregister(link::Length::Long, core::ptr::from_ref(hidden) as usize);
}

/// Moves what is behind an object to the holder: from now on the holder is all that leads to
/// either.
#[inline(never)]
fn take(first: *mut Pair, holder: *mut Pair) {
    // SAFETY: an object that is there; the holder has four words.
    unsafe {
        (*holder)[0] = first as usize;
        (*holder)[1] = (*first)[0];
        (*first)[0] = 0;
    }
}

/// Reads a link, and moves what is behind its object to the holder. False if the link is cleared.
#[inline(never)]
fn take_pair(hidden: &AtomicUsize, holder: *mut Pair) -> bool {
    api::hold_collections();
    let word = hidden.load(Relaxed);
    if word != 0 {
        take(!word as *mut Pair, holder);
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
        ensure!(is_there, "lost: object {which} of pair {id}, which a weak reference brought back");
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
    // The links are read one by one until the collection beside is over, however fast the machine.
    let began = Instant::now();
    ensure!(api::collect(), "no collection");
    let between = (began.elapsed() * 3 / 2 / LINKED as u32).max(Duration::from_micros(50));
    for _ in 0..40 {
        for (number, hidden) in links.iter().enumerate() {
            link_to(hidden, new_pair(number as u64));
        }
        let mut found = [false; LINKED];
        std::thread::scope(|scope| {
            let collecting = scope.spawn(api::collect);
            for (number, hidden) in links.iter().enumerate() {
                std::thread::sleep(between);
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
            unlink(hidden);
            // SAFETY: the holder has four words.
            unsafe { holders[number].write([0; 4]) };
        }
    }
    ensure!(taken > 0 && cleared > 0, "{taken} links were read in time, {cleared} were cleared");
    list.check();
}

/// How a weak reference stops leading to its object.
#[derive(Clone, Copy, Debug)]
enum LetGo {
    Unlinked,
    Freed,
    Set,
    Closed,
    EphemeronFreed,
    EphemeronSet,
}

/// Something weak that leads to an object.
struct Leading {
    how: LetGo,
    hidden: AtomicUsize,
    handle: Handle,
    domain: DomainId,
}

impl Leading {
    /// In a box, since a link stays where it was registered.
    #[inline(never)]
    fn new(how: LetGo, id: u64) -> Box<Self> {
        let first = new_pair(id);
        let domain = match how {
            LetGo::Closed => handles::open_domain(),
            _ => Some(DomainId::DEFAULT),
        };
        let domain = domain.unwrap_or_else(|| fail!("no domain"));
        let handle = match how {
            LetGo::Unlinked => Ok(Handle(0)),
            LetGo::EphemeronFreed => {
                handles::allocate_ephemeron(domain, first.cast(), first.cast())
            }
            // The key dies with the value, so that only the pair leads to either.
            LetGo::EphemeronSet => {
                let key = api::allocate(16, Kind::Conservative);
                handles::allocate_ephemeron(domain, key.cast(), first.cast())
            }
            _ => handles::allocate(domain, HandleKind::Weak, first.cast()),
        };
        let handle = handle.unwrap_or_else(|error| fail!("no handle: {error:?}"));
        let leading = Box::new(Self { how, hidden: AtomicUsize::new(0), handle, domain });
        if let LetGo::Unlinked = how {
            link_to(&leading.hidden, first);
        }
        leading
    }

    /// Moves the pair to the holder, and leads there no more; false if it is dead.
    #[inline(never)]
    fn take(&self, holder: *mut Pair) -> bool {
        let found = match self.how {
            LetGo::Unlinked => return take_pair(&self.hidden, holder) && self.let_go(),
            LetGo::EphemeronFreed | LetGo::EphemeronSet => {
                handles::get_ephemeron(self.handle).map(|(_, value)| value)
            }
            _ => handles::get(self.handle),
        };
        let first = found.unwrap_or_else(|error| fail!("lost: {:?}: {error:?}", self.how));
        if first.is_null() {
            return false;
        }
        take(first.cast(), holder);
        self.let_go()
    }

    fn let_go(&self) -> bool {
        let none = core::ptr::null();
        match self.how {
            LetGo::Unlinked => {
                unlink(&self.hidden);
                true
            }
            LetGo::Freed | LetGo::EphemeronFreed => handles::free(self.handle).is_ok(),
            LetGo::Set => handles::set(self.handle, none).is_ok(),
            LetGo::Closed => handles::close_domain(self.domain) == Some(1),
            LetGo::EphemeronSet => handles::set_ephemeron(self.handle, none) == Ok(true),
        }
    }
}

/// A weak reference that is read while a snapshot is marked, and leads there no more when the cycle
/// ends, has brought its object back all the same, and all that is behind it.
fn references_let_go(watch: &str) {
    set_option("watch", watch);
    set_option("check", "3");
    let list = List::new(10 * OBJECTS);
    let holder = api::allocate(32, Kind::Uncollectable).cast::<Pair>();
    let mut taken = 0;
    for round in 0..240 {
        let how = [
            LetGo::Unlinked,
            LetGo::Freed,
            LetGo::Set,
            LetGo::Closed,
            LetGo::EphemeronFreed,
            LetGo::EphemeronSet,
        ][round % 6];
        let leading = Leading::new(how, round as u64);
        let mut found = false;
        std::thread::scope(|scope| {
            let collecting = scope.spawn(api::collect);
            std::thread::sleep(core::time::Duration::from_micros(100 * (round as u64 / 6 % 40)));
            found = leading.take(holder);
            ensure!(collecting.join().unwrap_or(false), "no collection");
        });
        ensure!(api::collect(), "no collection");
        if found {
            check_pair(holder, round as u64);
            taken += 1;
        } else {
            leading.let_go();
        }
        // SAFETY: the holder has four words.
        unsafe { holder.write([0; 4]) };
    }
    ensure!(taken > 0, "no reference was read in time");
    list.check();
}

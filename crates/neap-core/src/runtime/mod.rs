//! Start-up: reads the options, reserves the heap, installs the stop signal and the fork handlers.
//! Wires the layers together.
//!
//! Invariant: [`initialize`] does its work once, on the first thread that needs the collector;
//! everybody else waits for it, a `fork` too. After it, the calling thread is attached.
//!
//! # Safety
//!
//! Gives back, after a `fork`, the lock that this very thread took before it. The test reads a copy
//! of words that stays until the next stop of one thread.

#![allow(unsafe_code)]

pub mod allocation;
pub(crate) mod at_fork;
pub mod buffers;
pub mod external_stop;
pub mod forking_server;
pub mod interposed;
mod lean;
mod recorded;
mod sampled;
pub mod snapshot_file;
pub mod summary;
pub mod warning;

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use core::time::Duration;

use crate::check;
use crate::cycle::driver::{between_steps, collector_thread, wake, watch_in_use};
use crate::cycle::report::line;
use crate::cycle::{limits, schedule};
use crate::heap::HEAP;
use crate::heap::hardened::GuardPages;
use crate::observe::recorder::{self, Sources};
use crate::observe::{ask_page, live_page};
use crate::options::{Entry, HugePages, Limit, Options, Prefork, WatchChoice};
use crate::rank::{self, Rank};
use crate::refs::finalizers::pool;
use crate::sync::{Guard, Lock, function::AtomicFunction};
use crate::sys::process::{instruments, shared_page, variables};
use crate::sys::protection::{alternate_stack, fault};
use crate::sys::{own_thread, print, side_stack, signal, thread};
use crate::watch::choose::{Watching, choose};
use crate::watch::mprotect;
use crate::world::mutator::Mutator;
use crate::world::{attach, current, last_thread, late, roots, stop, stop_signal};

/// Looks up what libc's loader would otherwise be asked for later: in a stop, with the holder of
/// the loader's lock stopped, or in a signal's handler. Front ends call it when they are loaded,
/// while nobody waits for anything; else the start does.
pub fn on_load() {
    own_thread::find();
    if own_thread::is_made_by_libc() {
        // Nothing of ours runs before there is a second thread.
        shared_page::make_room();
    }
    signal::real_sigaction();
    thread::note_load();
    thread::control_block_bytes();
    thread::static_storage_bytes();
    interposed::waits::find();
    interposed::helpers::find();
    interposed::address_space::find();
    interposed::forks::untold::find();
    interposed::masks::initialize();
    interposed::thread_results::find();
    at_fork::on_load();
}

/// Held by who starts the collector, until all is in place.
static START: Lock<()> = Lock::new(Rank::Start, ());
/// Set under `START`, as soon as the collector can be used.
static STARTED: AtomicBool = AtomicBool::new(false);
/// Set under `START` at its end.
static IS_COMPLETE: AtomicBool = AtomicBool::new(false);
/// The front end's part of the start.
static FRONT_ENDS_START: AtomicFunction<fn()> = AtomicFunction::none();

/// Has the front end's function called as the collector starts, whoever starts it: what the program
/// sets later is set after it. It neither allocates nor sets options.
pub fn set_at_start(function: fn()) {
    FRONT_ENDS_START.set(Some(function));
}

/// What is in force; set before the start by `set_option`.
static OPTIONS: Lock<Option<Options>> = Lock::new(Rank::Options, None);

/// Whether [`initialize`] has finished.
#[inline(always)]
pub fn is_initialized() -> bool {
    STARTED.load(Acquire)
}

/// Starts the collector if nobody has yet.
#[inline]
pub fn initialize() {
    if !is_initialized() {
        initialize_once();
    }
}

#[cold]
fn initialize_once() {
    let _start = START.lock();
    if is_initialized() {
        return;
    }
    // The first thread that needs the collector may have a small stack, and there is no cycle yet
    // that would need the collector's own.
    side_stack::prepare();
    thread::barrier::prepare();
    side_stack::on_at_start(|| {
        if let Some(function) = FRONT_ENDS_START.get() {
            function();
        }
        apply_at_start(&options());
    });
    STARTED.store(true, Release);
    attach::attach(None);
    side_stack::on_at_start(|| {
        let options = options();
        apply(&options);
        choose_pages(&options, Watching::Pagemap);
        watch_in_use::choose_with(open_watch);
        // What was asked for is told at once if it does not work, and a recording begins with it.
        if options.watch != WatchChoice::Auto || options.stats.is_some() {
            watch_in_use::watching();
        }
        if options.visible {
            wake::ensure();
        }
        // In a program that the collector is linked into statically, the heap's own words would
        // keep what lies at the heap's start.
        let heap = core::ptr::from_ref(&HEAP) as usize;
        roots::exclude(heap..heap + size_of_val(&HEAP));
        summary::install(options.summary);
    });
    IS_COMPLETE.store(true, Release);
}

/// As [`initialize`], and waits until the start is over: who holds the collector's lock meanwhile,
/// which the start waits for, must not come to wait for `START`, to fork.
pub fn complete_start() {
    initialize();
    if !IS_COMPLETE.load(Acquire) {
        drop(START.lock());
    }
}

/// Above this size a heap is made of huge pages where the user leaves the choice to us. Smaller:
/// marking gains earlier; larger: small programs stay small.
const HUGE_PAGES_ABOVE: usize = 32 << 20;

/// What cannot change later.
fn apply_at_start(options: &Options) {
    on_load();
    check::set_level(options.check as u8);
    if options.watch == WatchChoice::Mprotect {
        fault::expect();
    }
    if options.harden && HEAP.harden(options.watch == WatchChoice::Mprotect) == GuardPages::No {
        print::message(format_args!(
            "NEAP_HARDEN: large objects have no guard pages, which go with NEAP_WATCH=mprotect from \
             Linux 6.13 on only"
        ));
    }
    if let Err(error) = HEAP.reserve(0) {
        print::fatal(format_args!(
            "cannot reserve address space for the heap ({error}); raise the limit on address space \
             (ulimit -v)"
        ));
    }
    HEAP.state.past_end.store(options.past_end as usize, Relaxed);
    if options.past_end {
        // A byte more than a multiple of 16 would get cells that are none.
        HEAP.state.align_all.store(1, Relaxed);
    }
    attach::initialize();
    attach::set_detach_hook(crate::refs::detach);
    match options.stats {
        Some(file) => record(file, options),
        None => recorder::decline(),
    }
    instruments::advise();
    if options.watch == WatchChoice::Mprotect {
        alternate_stack::want();
        // Where there is no memory for it, opening the watch says so.
        let _ = mprotect::prepare(&(HEAP.base().0..HEAP.base().0 + HEAP.reserved()));
    }
    between_steps::prepare();
    collector_thread::prepare(snapshot_file::answer, ask_page::make);
    last_thread::install(|| _ = wake::wake());
    stop_signal::set_refusal_hook(crate::cycle::driver::disabling::disable_for_good);
    late::install();
    if !stop::install(options.stop_signal) {
        print::fatal(format_args!(
            "the kernel refuses signal {}; choose another with NEAP_STOP_SIGNAL (34 to 64)",
            options.stop_signal
        ));
    }
    at_fork::initialize();
    live_page::prepare(options.visible);
}

/// Has the process recorded.
fn record(file: &'static CStr, options: &Options) {
    attach::count_requests(recorder::end_of_thread);
    let watch = || watch_in_use::watching().name();
    let unstopped = |f: &mut dyn FnMut()| {
        let _critical = current::get().map(Mutator::critical);
        f();
    };
    let statistics = summary::statistics;
    recorder::begin(file, Sources { statistics, watch, unstopped, options: *options });
    if options.sample != 0 {
        sampled::begin(options.sample as u64);
        interposed::thread_results::leave_out_of_stacks();
    }
}

fn markers_of(options: &Options, processors: usize) -> usize {
    let markers = if options.markers == 0 { processors } else { options.markers as usize };
    markers.min(crate::mark::markers::MOST_MARKERS)
}

/// Threads that mark at most.
pub fn markers() -> usize {
    markers_of(&options(), thread::processors())
}

/// What can.
fn apply(options: &Options) {
    limits::configure(options.max_heap, options.soft_limit);
    roots::set_static(options.static_roots);
    // Whole ones: 0 means something else than very little.
    let milliseconds = |time: Duration| time.as_nanos().div_ceil(1_000_000) as u64;
    collector_thread::set_decay(milliseconds(options.decay), options.decay_cycles.into());
    collector_thread::set_idle_ms(milliseconds(options.idle));
    pool::configure(options.finalizers, options.finalizer_backlog as usize);
    line::LOG_CYCLES.store(options.log.cycles, Relaxed);
    forking_server::set_on_fork(options.prefork == Prefork::OnFork);
    let processors = thread::processors();
    schedule::configure(|collector| {
        collector.settings.growth = options.growth;
        collector.settings.min_trigger = options.min_trigger;
        collector.settings.busy_trigger = options.busy_trigger;
        collector.max_pause_ns = options.max_pause.as_nanos() as u64;
        collector.minor = options.minor_cycles;
        collector.processors = processors;
        collector.markers = markers_of(options, processors);
        if !collector.images.reserve() {
            print::fatal(format_args!(
                "no memory for the list of loaded objects; raise the limit on address space \
                 (ulimit -v)"
            ));
        }
    });
}

/// Which memory is to be huge pages. A watch protects and reports page by page: the first write to
/// a protected huge page splits it. And who writes to a fresh one waits until two megabytes are
/// cleared, which may take milliseconds, in which it answers no stop: so pointer-free memory has
/// none either under a watch, nor has what is allocated before it is known which one there is.
fn choose_pages(options: &Options, watching: Watching) {
    let (all, leaf) = match (options.huge_pages, watching) {
        (HugePages::Auto, Watching::None | Watching::Fork) => (HUGE_PAGES_ABOVE, usize::MAX),
        (HugePages::All, _) => (0, usize::MAX),
        (HugePages::Leaf, _) => (usize::MAX, 0),
        (HugePages::Auto | HugePages::Never, _) => (usize::MAX, usize::MAX),
    };
    HEAP.state.huge_pages_above.store(all, Relaxed);
    HEAP.state.huge_leaf_above.store(leaf, Relaxed);
}

/// Opens the watch that was asked for; where the system refuses, cycles stop the world, and that is
/// said. Before the first cycle, by any thread of the program; see [`watch_in_use::choose_with`].
fn open_watch(waits: bool) -> bool {
    // Who holds collections off has that lock already.
    let options = rank::out_of_order(Rank::Cycle, options);
    watch_in_use::choose_first(waits, |collector| {
        let watching = match choose(options.watch) {
            Ok(watching) if watch_in_use::enable(collector, watching) => watching,
            Ok(watching) => {
                print::message(format_args!(
                    "no memory for the {} watch; cycles stop the world instead",
                    watching.name()
                ));
                Watching::None
            }
            Err((watching, refusal)) => {
                print::message(format_args!(
                    "the {} watch does not work here ({refusal}); cycles stop the world instead. \
                     NEAP_WATCH=auto takes what works, `neap doctor` says what that is",
                    watching.name()
                ));
                Watching::None
            }
        };
        choose_pages(&options, watching);
    })
}

/// The options in force: what the program set over what the environment says.
pub fn options() -> Options {
    *OPTIONS.lock().get_or_insert_with(|| {
        variables::find();
        Options::from_environment()
    })
}

/// Sets the hard limit, as `max_heap` would.
pub fn set_max_heap(limit: Limit) {
    while_changing(|start| {
        change(&start, |options| options.max_heap = limit);
        drop(start);
        apply_changed();
    });
}

/// Runs what changes options, also on a thread that holds collections off: it has the collector's
/// lock, for which nobody waits who has `START`.
fn while_changing<R>(f: impl FnOnce(Guard<'_, ()>) -> R) -> R {
    rank::out_of_order(Rank::Cycle, || f(START.lock()))
}

/// Sets an option by name. What only the start-up reads is refused after it.
pub fn set_option(name: &[u8], value: &[u8]) -> Result<(), &'static str> {
    while_changing(|start| {
        if is_initialized() && Entry::find(name).is_some_and(Entry::is_for_the_start) {
            return Err(
                "this option must be set before the collector starts, that is before the first \
                 allocation",
            );
        }
        change(&start, |options| options.set(name, value)).map_err(|error| error.text())?;
        drop(start);
        apply_changed();
        Ok(())
    })
}

/// Counts changes of the options. Written under `START`.
static CHANGES: AtomicU32 = AtomicU32::new(0);

fn change<R>(_start: &Guard<'_, ()>, change: impl FnOnce(&mut Options) -> R) -> R {
    let mut options = options();
    let result = change(&mut options);
    *OPTIONS.lock() = Some(options);
    CHANGES.fetch_add(1, Release);
    result
}

/// Puts what was changed into force. Without a lock: who has the collector's, which is waited for
/// here, may wait for `START`, to fork. So who comes last puts all into force.
fn apply_changed() {
    while is_initialized() {
        let applied = CHANGES.load(Acquire);
        apply(&options());
        if CHANGES.load(Acquire) == applied {
            break;
        }
    }
}

/// The calling thread has a mutator; starts the collector and attaches the thread if need be.
#[inline(always)]
pub fn mutator() -> &'static crate::world::mutator::Mutator {
    match current::get() {
        Some(mutator) => mutator,
        None => {
            initialize();
            attach::current()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::WORD_BYTES;
    use crate::sys::clock;
    use crate::world::roots::Images;
    use crate::world::stop::One;
    use crate::world::{blocked, registry, stop};
    use core::sync::atomic::{AtomicBool, AtomicU64};
    use std::time::{Duration, Instant};

    /// Waits for `condition`, half a minute at most.
    fn comes(condition: impl Fn() -> bool) -> bool {
        let began = Instant::now();
        while !condition() && began.elapsed() < Duration::from_secs(30) {
            std::thread::yield_now();
        }
        condition()
    }

    #[test]
    fn a_thread_stopped_alone_holds_no_other_and_goes_on_once_it_has_copied_its_roots() {
        const MARK: usize = 0x5eed_5eed_5eed_5eed;
        let (turns, target) = (AtomicU64::new(0), AtomicU64::new(0));
        let [waits, go, left, over] = [const { AtomicBool::new(false) }; 4];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let on_stack = core::hint::black_box([MARK; 3]);
                target.store(mutator().thread.load(Relaxed).into(), SeqCst);
                while !over.load(Relaxed) {
                    turns.fetch_add(1, Relaxed);
                }
                core::hint::black_box(&on_stack);
            });
            scope.spawn(|| {
                blocked::blocked(mutator(), || {
                    waits.store(true, SeqCst);
                    assert!(comes(|| go.load(SeqCst)));
                });
                left.store(true, SeqCst);
            });
            assert!(comes(|| turns.load(Relaxed) > 0 && waits.load(SeqCst)));
            let mut registry = registry::lock();
            let number = target.load(SeqCst);
            let one = registry.iter().find(|one| u64::from(one.thread.load(Relaxed)) == number);
            let one = stop::stop_one(&Images::new(), &mut registry, one.unwrap());
            let before = turns.load(Relaxed);
            go.store(true, SeqCst);
            let others_ran = comes(|| left.load(SeqCst) && turns.load(Relaxed) > before);
            let found = match &one {
                One::Stands(_) | One::Gone => 0,
                One::Copied(range) => range
                    .clone()
                    .step_by(WORD_BYTES)
                    // SAFETY: words of the copy, which stays until the next stop of one thread.
                    .filter(|word| unsafe { *(*word as *const usize) } == MARK)
                    .count(),
            };
            stop::resume_one(one);
            drop(registry);
            over.store(true, SeqCst);
            assert!(others_ran && found >= 3, "{others_ran} {found}");
        });
    }

    #[test]
    fn a_stop_of_many_is_over_when_the_last_may_run() {
        const THREADS: usize = 200;
        // When the first went on, by its own clock.
        let first = AtomicU64::new(0);
        let [ready, went_on] = [const { AtomicU64::new(0) }; 2];
        let over = AtomicBool::new(false);
        let sleep = || {
            mutator();
            ready.fetch_add(1, SeqCst);
            while !over.load(SeqCst) {
                // SAFETY: no files. A stop ends it.
                if unsafe { libc::poll(core::ptr::null_mut(), 0, 50) } == -1 {
                    first.fetch_min(clock::now_ns(), SeqCst);
                    went_on.fetch_add(1, SeqCst);
                }
            }
        };
        std::thread::scope(|scope| {
            let own = mutator();
            let threads: Vec<_> = (0..THREADS)
                .map(|_| {
                    let thread = std::thread::Builder::new().stack_size(64 << 10);
                    thread.spawn_scoped(scope, sleep).unwrap()
                })
                .collect();
            assert!(comes(|| ready.load(SeqCst) == THREADS as u64));
            // Where all processors are busy nobody goes on before all are woken.
            let is_seen = (0..200).any(|_| {
                std::thread::sleep(Duration::from_millis(5));
                first.store(u64::MAX, SeqCst);
                went_on.store(0, SeqCst);
                let mut registry = registry::lock();
                let world = crate::world::the();
                let stopped = world.stop(&mut registry, Some(own)).unwrap();
                let resumed = world.resume(stopped);
                drop(registry);
                comes(|| went_on.load(SeqCst) > 0) && first.load(SeqCst) < resumed
            });
            over.store(true, SeqCst);
            // The scope's end does not wait for what libc frees when a thread ends, which the
            // address sanitizer would take for lost.
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert!(is_seen, "the stop was over before anybody was woken");
        });
    }
}

//! Every mistake that a small model can be made with is found: so the checker would see such a
//! mistake in what it finds in order.
//!
//! Invariant: each mutant of `src/parts` has a test here, and a row in the table of
//! `docs/reliability.md`; `cargo xtask mutants` compares the three.

use neap_model::cycles::NOTHING_LOST;
use neap_model::parts::assists::{ALL_IS_MARKED, MARKING_ENDS};
use neap_model::parts::last_thread::{ENDS_WITH_LAST, NOT_BEFORE};
use neap_model::parts::links::LINKS_HOLD;
use neap_model::parts::loader::{LIST_IS_WHOLE, NOTHING_HANGS};
use neap_model::parts::offers::TAKEN_ONCE;
use neap_model::parts::stopping::{NOBODY_IN_CRITICAL, STOPS_END, WORLD_STANDS};
use neap_model::parts::thread_results::RESULTS_HOLD;
use neap_model::parts::timed_waits::ENDS_IN_TIME;
use neap_model::parts::*;
use stateright::{Checker, HasDiscoveries, Model};

/// Whether the checker finds a way to break a property of the model.
macro_rules! finds {
    ($($test:ident: $part:ident::$model:ident, $mutant:ident, $property:ident;)*) => {$(
        #[test]
        fn $test() {
            let model = $part::$model { mutant: $part::Mutant::$mutant };
            let checker = model
                .checker()
                .finish_when(HasDiscoveries::AnyOf([$property].into()))
                .spawn_bfs()
                .join();
            assert!(checker.discovery($property).is_some());
        }
    )*};
}

finds! {
    assists_leaves_uncounted: assists::Assists, LeavesUncounted, ALL_IS_MARKED;
    assists_keeps_list_count: assists::Assists, KeepsListCount, MARKING_ENDS;
    assists_steals_inactive: assists::Assists, StealsInactive, ALL_IS_MARKED;
    assists_gate_unwaited: assists::Assists, GateUnwaited, ALL_IS_MARKED;
    assists_sleeps_unseen: assists::Assists, SleepsUnseen, MARKING_ENDS;
    before_images_releases_first: before_images::BeforeImages, ReleasesFirst, NOTHING_LOST;
    before_images_asks_first: before_images::BeforeImages, AsksFirst, NOTHING_LOST;
    before_images_forgets_touched: before_images::BeforeImages, ForgetsTouched, NOTHING_LOST;
    before_images_ignores_copies: before_images::BeforeImages, IgnoresCopies, NOTHING_LOST;
    births_waits_for_nobody: births::Births, WaitsForNobody, NOTHING_LOST;
    births_no_barrier: births::Births, NoBarrier, NOTHING_LOST;
    births_looks_first: births::Births, LooksFirst, NOTHING_LOST;
    disabling_begins_disabled: disabling::Disabling, BeginsDisabled, NOTHING_LOST;
    disabling_ends_disabled: disabling::Disabling, EndsDisabled, NOTHING_LOST;
    disabling_looks_unlocked: disabling::Disabling, LooksUnlocked, NOTHING_LOST;
    disabling_waits_for_nobody: disabling::Disabling, WaitsForNobody, NOTHING_LOST;
    frees_waits_for_nobody: frees::Frees, WaitsForNobody, NOTHING_LOST;
    frees_no_barrier: frees::Frees, NoBarrier, NOTHING_LOST;
    frees_looks_first: frees::Frees, LooksFirst, NOTHING_LOST;
    frees_allocation_first: frees::Frees, AllocationFirst, NOTHING_LOST;
    growing_protects_in_part: growing::Growing, ProtectsInPart, NOTHING_LOST;
    growing_asks_before: growing::Growing, AsksBefore, NOTHING_LOST;
    growing_grows_in_part: growing::Growing, GrowsInPart, NOTHING_LOST;
    holding_leaves_them: holding::Holding, LeavesThem, NOTHING_HANGS;
    holding_tells_unlocked: holding::Holding, TellsUnlocked, NOTHING_HANGS;
    buffers_leaves_none: buffers::Buffers, LeavesNone, NOTHING_LOST;
    buffers_limit_stays: buffers::Buffers, LimitStays, NOTHING_LOST;
    buffers_leaves_unmarked: buffers::Buffers, LeavesUnmarked, NOTHING_LOST;
    copied_reads_unanswered: copied::Copied, ReadsUnanswered, NOTHING_LOST;
    copied_goes_on_uncopied: copied::Copied, GoesOnUncopied, NOTHING_LOST;
    copied_leaves_while_read: copied::Copied, LeavesWhileRead, NOTHING_LOST;
    last_thread_looks_first: last_thread::LastThread, LooksFirst, ENDS_WITH_LAST;
    last_thread_asks_first: last_thread::LastThread, AsksFirst, ENDS_WITH_LAST;
    last_thread_keeps_numbers: last_thread::LastThread, KeepsNumbers, NOT_BEFORE;
    last_thread_looks_once: last_thread::LastThread, LooksOnce, NOT_BEFORE;
    links_settles_by_object_alone: links::Links, SettlesByObjectAlone, LINKS_HOLD;
    links_settles_by_container_alone: links::Links, SettlesByContainerAlone, LINKS_HOLD;
    links_changed_stays_settled: links::Links, ChangedStaysSettled, LINKS_HOLD;
    links_full_keeps_settled: links::Links, FullKeepsSettled, LINKS_HOLD;
    links_keeps_dangling: links::Links, KeepsDangling, LINKS_HOLD;
    links_clears_beside_program: links::Links, ClearsBesideProgram, LINKS_HOLD;
    loader_maker_blocks_signals: loader::Loader, MakerBlocksSignals, NOTHING_HANGS;
    loader_maker_is_critical: loader::Loader, MakerIsCritical, NOTHING_HANGS;
    loader_lists_before: loader::Loader, ListsBefore, LIST_IS_WHOLE;
    loader_lists_in_stop: loader::Loader, ListsInStop, NOTHING_HANGS;
    local_stop_ignores_written: local_functions::LocalFunctions, StopIgnoresWritten, NOTHING_LOST;
    local_round_forgets_written: local_functions::LocalFunctions, RoundForgetsWritten, NOTHING_LOST;
    local_minor_forgets_written: local_functions::LocalFunctions, MinorForgetsWritten, NOTHING_LOST;
    middle_stop_traces_once: middle_stop::MiddleStop, TracesOnce, NOTHING_LOST;
    middle_stop_minor_forgets_traced: middle_stop::MiddleStop, MinorForgetsTraced, NOTHING_LOST;
    middle_stop_traces_beside_program: middle_stop::MiddleStop, TracesBesideProgram, NOTHING_LOST;
    middle_stop_middle_is_last: middle_stop::MiddleStop, MiddleIsLast, NOTHING_LOST;
    offers_looks_once: offers::Offers, LooksOnce, TAKEN_ONCE;
    offers_takes_back_unlocked: offers::Offers, TakesBackUnlocked, TAKEN_ONCE;
    offers_stays_on_offer: offers::Offers, StaysOnOffer, TAKEN_ONCE;
    stopping_drops_unsent: stopping::Stopping, DropsUnsent, WORLD_STANDS;
    stopping_unsent_stands: stopping::Stopping, UnsentStands, WORLD_STANDS;
    stopping_looks_first: stopping::Stopping, LooksFirst, WORLD_STANDS;
    stopping_counts_only: stopping::Stopping, CountsOnly, WORLD_STANDS;
    stopping_counts_stale: stopping::Stopping, CountsStale, WORLD_STANDS;
    stopping_obeys_in_critical: stopping::Stopping, ObeysInCritical, NOBODY_IN_CRITICAL;
    stopping_forgets_put_off: stopping::Stopping, ForgetsPutOff, STOPS_END;
    stopping_attaches_in_stop: stopping::Stopping, AttachesInStop, WORLD_STANDS;
    stopping_handler_in_region: stopping::Stopping, HandlerInRegion, WORLD_STANDS;
    thread_results_takes_newest: thread_results::ThreadResults, TakesNewest, RESULTS_HOLD;
    thread_results_writes_oldest: thread_results::ThreadResults, WritesOldest, RESULTS_HOLD;
    thread_results_freed_by_join: thread_results::ThreadResults, FreedByJoin, RESULTS_HOLD;
    results_listed_by_maker_only: thread_results::ThreadResults, ListedByMakerOnly, RESULTS_HOLD;
    timed_waits_whole_time_again: timed_waits::TimedWaits, WholeTimeAgain, ENDS_IN_TIME;
    timed_waits_standing_is_free: timed_waits::TimedWaits, StandingIsFree, ENDS_IN_TIME;
    root_pieces_forgets_abandoned: root_pieces::RootPieces, ForgetsAbandoned, NOTHING_LOST;
    root_pieces_notes_another: root_pieces::RootPieces, NotesAnother, NOTHING_LOST;
    root_pieces_notes_at_once: root_pieces::RootPieces, NotesAtOnce, NOTHING_LOST;
    watched_roots_reads_then_protects: watched_roots::WatchedRoots, ReadsThenProtects, NOTHING_LOST;
    watched_roots_protects_unread: watched_roots::WatchedRoots, ProtectsUnread, NOTHING_LOST;
    watched_roots_full_goes_on: watched_roots::WatchedRoots, FullGoesOn, NOTHING_LOST;
    watched_roots_minor_forgets: watched_roots::WatchedRoots, MinorForgets, NOTHING_LOST;
    watched_roots_stop_does_not_ask: watched_roots::WatchedRoots, StopDoesNotAsk, NOTHING_LOST;
    watched_roots_trusts_remapped: watched_roots::WatchedRoots, TrustsRemapped, NOTHING_LOST;
    watched_roots_leaves_out_growth: watched_roots::WatchedRoots, LeavesOutGrowth, NOTHING_LOST;
    weak_reads_looks_once: weak_reads::WeakReads, LooksOnce, NOTHING_LOST;
    weak_reads_phase_first: weak_reads::WeakReads, PhaseFirst, NOTHING_LOST;
    weak_reads_gives_unmarked: weak_reads::WeakReads, GivesUnmarked, NOTHING_LOST;
    weak_reads_gives_unscanned: weak_reads::WeakReads, GivesUnscanned, NOTHING_LOST;
    weak_reads_phase_once: weak_reads::WeakReads, PhaseOnce, NOTHING_LOST;
    weak_reads_gives_resurrected: weak_reads::WeakReads, GivesResurrected, NOTHING_LOST;
    weak_reads_born_unmarked: weak_reads::WeakReads, BornUnmarked, NOTHING_LOST;
    weak_reads_sweeps_early: weak_reads::WeakReads, SweepsEarly, NOTHING_LOST;
    weak_snapshots_says_nothing: weak_snapshots::WeakSnapshots, SaysNothing, NOTHING_LOST;
    says_after_looking: weak_snapshots::WeakSnapshots, SaysAfterLooking, NOTHING_LOST;
    weak_snapshots_forgets_changed: weak_snapshots::WeakSnapshots, ForgetsChanged, NOTHING_LOST;
    looks_before_change: weak_snapshots::WeakSnapshots, LooksBeforeChange, NOTHING_LOST;
    weak_snapshots_born_unmarked: weak_snapshots::WeakSnapshots, BornUnmarked, NOTHING_LOST;
    weak_snapshots_ignores_reads: weak_snapshots::WeakSnapshots, IgnoresReads, NOTHING_LOST;
}

//! The small models hold what they have to.
//!
//! Invariant: the explorations are complete, and each reaches what makes it worth while.

use neap_model::parts::*;
use stateright::{Checker, Model};

macro_rules! hold {
    ($($part:ident::$model:ident),* $(,)?) => {$(
        #[test]
        fn $part() {
            let model = $part::$model { mutant: $part::Mutant::None };
            model.checker().threads(2).spawn_bfs().join().assert_properties();
        }
    )*};
}

hold! {
    assists::Assists,
    before_images::BeforeImages,
    births::Births,
    buffers::Buffers,
    copied::Copied,
    disabling::Disabling,
    frees::Frees,
    growing::Growing,
    holding::Holding,
    last_thread::LastThread,
    links::Links,
    loader::Loader,
    local_functions::LocalFunctions,
    middle_stop::MiddleStop,
    offers::Offers,
    root_pieces::RootPieces,
    stopping::Stopping,
    thread_results::ThreadResults,
    timed_waits::TimedWaits,
    watched_roots::WatchedRoots,
    weak_reads::WeakReads,
    weak_snapshots::WeakSnapshots,
}

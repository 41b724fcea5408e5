/// Collections off and on, as often as the program says.
///
/// Invariant: how often they were disabled beyond being enabled is under the lock of `shared_lock`,
/// with the library's switch, which is on while that is 0. The lock is not held in a wait for a
/// cycle, whose stops take it. Called by `plugin.d`, from any thread.
module neap.disabling;

import neap.c : neap_finish_collection, neap_set_automatic;
import neap.finalizers : areReady, runReady;
import neap.shared_lock;

nothrow:

private __gshared uint disabled;

void enable() @nogc
{
    acquire();
    scope (exit)
        release();
    // Once more than it was disabled: it stays enabled, and the next `disable` counts.
    if (disabled != 0 && --disabled == 0)
        neap_set_automatic(1);
}

/// What the program hides from now on is not lost to a cycle either that had begun, whichever
/// thread was the first to disable them.
void disable()
{
    switchOff();
    neap_finish_collection();
    // A destructor that throws leaves them as they were.
    scope (failure)
        enable();
    // What that cycle found dead is destroyed before the program goes on, as in an allocation.
    if (areReady())
        runReady();
}

/// The same where no cycle can have begun.
void switchOff() @nogc
{
    acquire();
    scope (exit)
        release();
    if (disabled++ == 0)
        neap_set_automatic(0);
}

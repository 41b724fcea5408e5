/// What the programs with threads have in common: some threads work, and until they are done the
/// first thread makes copies of the text and forgets them.
///
/// Called once, from `main`. The work runs on threads of its own, and what it changes is its own.
module threads;

import core.atomic : atomicLoad, atomicOp;
import core.thread : Thread;

/// Runs `work` with the numbers from 0 on, each on a thread; copies are arrays of `Element`. False
/// if a copy differs from the text.
bool workBesideCopies(Element)(size_t count, string text, void delegate(size_t number) work)
{
    shared size_t running = count;
    Thread start(size_t number)
    {
        return new Thread({
            scope (exit)
                running.atomicOp!"-="(1);
            work(number);
        }).start();
    }

    auto all = new Thread[count];
    foreach (number, ref thread; all)
        thread = start(number);
    bool isRight = true;
    const(void)[] last = text;
    while (running.atomicLoad != 0)
    {
        auto copy = new Element[text.length];
        copy[] = cast(const(Element)[]) text;
        // The one before, which nobody wrote to since.
        isRight &= (cast(const(ubyte)[]) last)[$ - 1] == text[$ - 1];
        last = copy;
        Thread.yield();
    }
    foreach (thread; all)
        thread.join();
    return isRight && cast(const(ubyte)[]) last == cast(const(ubyte)[]) text;
}

/// writers [ROUNDS]: three threads, each in a fiber, write all over tables of their own faster than
/// a cycle beside them can scan, so that short stops catch up with them wherever they stand, while
/// other threads begin and end. Everything in the tables has to stay what it was.
module writers;

import core.atomic : atomicOp;
import core.thread : Fiber, Thread;

enum size_t places = 60_000, writers = 3, apart = 7919, newAfter = 64;

final class Box
{
    size_t place;
    Box other;

    this(size_t place, Box other)
    {
        this.place = place;
        this.other = other;
    }
}

bool holds(const Box box, size_t place)
{
    return box.place == place && (box.other is null || box.other.place == place + 1);
}

bool write(size_t rounds, size_t first)
{
    auto table = new Box[places];
    foreach (place, ref box; table)
        box = new Box(place, null);
    bool isRight = true;
    auto fiber = new Fiber({
        size_t place = first;
        foreach (round; 0 .. rounds)
        {
            foreach (step; 0 .. places)
            {
                place = (place + apart) % places;
                auto box = table[place];
                isRight &= box.holds(place);
                box.other = step % newAfter == 0 ? new Box(place + 1, null) : box.other;
            }
            Fiber.yield();
        }
    });
    while (fiber.state != Fiber.State.TERM)
    {
        fiber.call();
        auto brief = new Thread({ isRight &= new Box(3, new Box(4, null)).holds(3); }).start();
        brief.join();
    }
    foreach (place, box; table)
        isRight &= box.holds(place);
    return isRight;
}

int main(string[] arguments)
{
    import std.conv : to;

    const rounds = arguments.length > 1 ? arguments[1].to!size_t : 100;
    shared size_t right;
    Thread start(size_t writer)
    {
        return new Thread({ right.atomicOp!"+="(write(rounds, writer)); }).start();
    }

    auto all = new Thread[writers];
    foreach (writer, ref thread; all)
        thread = start(writer);
    foreach (thread; all)
        thread.join();
    return right == writers ? 0 : 1;
}

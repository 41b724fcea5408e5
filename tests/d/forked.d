/// A D thread that forks while others allocate: the child allocates, collects, makes threads of its
/// own, and ends by `exit`. Ends with 0 if every child did. `run.sh` runs it. No thread begins or
/// ends meanwhile: druntime has locks for that which it does not mend in a child. Then threads do
/// begin beside forks, whose children only collect: neither may wait for the other. Last, children
/// return from `main`, where druntime waits for threads that are about to start.
module forked;

import core.memory : GC;
import core.stdc.stdio : fprintf, stderr;
import core.stdc.stdlib : exit;
import core.sys.posix.sys.wait : waitpid;
import core.sys.posix.unistd : _exit, alarm, fork;
import core.thread : Thread;
import core.atomic : atomicLoad, atomicOp, atomicStore;

enum turns = 40;

shared bool begun, done;
shared int failed, forked;

final class Node
{
    Node next;
    int number;
}

/// Whether a list of that length is whole after cycles.
bool works(int length)
{
    Node first;
    foreach (i; 0 .. length)
    {
        auto node = new Node;
        node.next = first;
        node.number = i;
        first = node;
        new ubyte[1000];
    }
    GC.collect();
    foreach_reverse (i; 0 .. length)
    {
        if (first is null || first.number != i)
            return false;
        first = first.next;
    }
    return first is null;
}

void inChild(int turn)
{
    alarm(20);
    if (turn % 2 == 0)
        exit(0);
    const before = GC.profileStats.numCollections;
    bool right = works(1000);
    bool inThread;
    auto other = new Thread({ inThread = works(1000); }).start();
    other.join();
    right &= inThread && GC.profileStats.numCollections > before;
    exit(right ? 0 : 1);
}

void forking()
{
    while (!atomicLoad(begun))
        Thread.yield();
    forkMany();
    atomicOp!"+="(forked, 1);
    while (atomicLoad(forked) < 2)
        Thread.yield();
}

void forkMany()
{
    foreach (turn; 0 .. turns)
    {
        const child = fork();
        if (child == 0)
            inChild(turn);
        int status = -1;
        if (child == -1 || waitpid(child, &status, 0) != child || status != 0)
        {
            fprintf(stderr, "forked.d: turn %d: child %d ended with %#x\n", turn, child, status);
            atomicOp!"+="(failed, 1);
            return;
        }
    }
}

/// Forks while threads begin and end.
void forkBesideBeginnings()
{
    shared bool over;
    Thread[] all;
    foreach (k; 0 .. 3)
        all ~= new Thread({
            while (!atomicLoad(over))
                new Thread({ works(10); }).start().join();
        }).start();
    foreach (turn; 0 .. turns)
    {
        const child = fork();
        if (child == 0)
        {
            alarm(20);
            _exit(works(1000) ? 0 : 1);
        }
        int status = -1;
        if (child == -1 || waitpid(child, &status, 0) != child || status != 0)
        {
            fprintf(stderr, "forked.d: beside beginnings, turn %d: ended with %#x\n", turn, status);
            atomicOp!"+="(failed, 1);
            break;
        }
    }
    atomicStore(over, true);
    foreach (thread; all)
        thread.join();
}

/// Forks while threads begin. True in a child, which is to return from `main`.
bool forkToReturn()
{
    shared bool over;
    Thread[] all;
    foreach (k; 0 .. 3)
        all ~= new Thread({
            while (!atomicLoad(over))
                new Thread({}).start().join();
        }).start();
    foreach (turn; 0 .. turns)
    {
        const child = fork();
        if (child == 0)
        {
            alarm(20);
            return true;
        }
        int status = -1;
        if (child == -1 || waitpid(child, &status, 0) != child || status != 0)
        {
            fprintf(stderr, "forked.d: to return, turn %d: ended with %#x\n", turn, status);
            atomicOp!"+="(failed, 1);
            break;
        }
    }
    atomicStore(over, true);
    foreach (thread; all)
        thread.join();
    return false;
}

int main()
{
    Thread[] all;
    foreach (k; 0 .. 2)
        all ~= new Thread({
            while (!atomicLoad(done))
                if (!works(300))
                    atomicOp!"+="(failed, 1);
        }).start();
    auto one = new Thread(&forking).start(), two = new Thread(&forking).start();
    atomicStore(begun, true);
    one.join();
    two.join();
    atomicStore(done, true);
    foreach (thread; all)
        thread.join();
    forkBesideBeginnings();
    if (forkToReturn())
        return 0;
    return failed != 0;
}

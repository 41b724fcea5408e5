/// conmsg [MESSAGES]: four threads are sent MESSAGES messages (150,000) in turn by the first one,
/// and answer each: a line with its number, and the words of it in an array. No more than a few
/// hundred are on their way.
///
/// To every line there has to be an answer, with as many words as it has, and the numbers of each
/// thread's have to come in order.
module conmsg;

import report;
import std.concurrency : ownerTid, receive, receiveOnly, send, spawn, Tid;
import std.conv : text, to;
import std.string : split;

enum size_t workers = 4, onTheirWay = 256;

struct Line
{
    size_t number;
    string words;
}

struct Answer
{
    size_t worker, number;
    immutable(string)[] words;
}

void work(size_t worker)
{
    for (bool goesOn = true; goesOn;)
        receive((Line line) {
            ownerTid.send(Answer(worker, line.number, line.words.split.idup));
        }, (bool end) { goesOn = false; });
}

string lineOf(size_t number)
{
    string line;
    foreach (word; 0 .. wordsIn(number))
        line ~= text(" word", number + word);
    return line;
}

size_t wordsIn(size_t number)
{
    return 1 + number % 7;
}

int main(string[] arguments)
{
    const messages = arguments.length > 1 ? arguments[1].to!size_t : 150_000;
    auto threads = new Tid[workers];
    foreach (worker, ref thread; threads)
        thread = spawn(&work, worker);
    beginWork();
    bool isRight = true;
    auto next = new size_t[workers];
    foreach (worker, ref number; next)
        number = worker;
    size_t answers;
    void take()
    {
        const answer = receiveOnly!Answer;
        answers++;
        isRight &= answer.number == next[answer.worker]
            && answer.words.length == wordsIn(answer.number)
            && answer.words[$ - 1] == text("word", answer.number + answer.words.length - 1);
        next[answer.worker] += workers;
    }

    foreach (number; 0 .. messages)
    {
        threads[number % workers].send(Line(number, lineOf(number)));
        if (number >= onTheirWay)
            take();
    }
    while (answers < messages)
        take();
    foreach (thread; threads)
        thread.send(true);
    return report.report(isRight);
}

/// conalloc [DIGESTS]: four threads make DIGESTS digests (2,500) of the text by SHA-1, each with an
/// object of its own, while the first thread copies the text.
///
/// All digests have to be that of the text.
module conalloc;

import report;
import std.conv : to;
import std.digest.sha : SHA1, sha1Of;
import text;
import threads;

enum size_t workers = 4;

int main(string[] arguments)
{
    const digests = (arguments.length > 1 ? arguments[1].to!size_t : 2_500) / workers;
    const whole = text.text();
    auto areSame = new bool[workers];
    auto last = new ubyte[20][workers];
    bool isRight = workBesideCopies!ubyte(workers, whole, (number) {
        areSame[number] = true;
        foreach (turn; 0 .. digests)
        {
            auto sha = new SHA1;
            sha.put(cast(const(ubyte)[]) whole);
            const digest = sha.finish();
            areSame[number] &= turn == 0 || digest == last[number];
            last[number] = digest;
        }
    });
    foreach (number; 0 .. workers)
        isRight &= areSame[number];
    return report.report(isRight && whole == text.text() &&
        last == [sha1Of(whole), sha1Of(whole), sha1Of(whole), sha1Of(whole)]);
}

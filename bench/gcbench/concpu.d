/// concpu [TEXTS]: four threads make a digest by SHA-1 each, of TEXTS / 4 times the text (2,500 /
/// 4), while the first thread copies the text.
///
/// All digests have to be the same, and the text unchanged.
module concpu;

import report;
import std.algorithm : all;
import std.conv : to;
import std.digest.sha : SHA1;
import text;
import threads;

enum size_t workers = 4;

int main(string[] arguments)
{
    const texts = (arguments.length > 1 ? arguments[1].to!size_t : 2_500) / workers;
    const whole = text.text();
    auto digests = new ubyte[20][workers];
    // Such copies may hold pointers, as far as the collector knows.
    const isRight = workBesideCopies!(void)(workers, whole, (number) {
        auto sha = new SHA1;
        foreach (turn; 0 .. texts)
            sha.put(cast(const(ubyte)[]) whole);
        digests[number] = sha.finish();
    });
    return report.report(isRight && whole == text.text() && digests[0] != (ubyte[20]).init
            && digests.all!(digest => digest == digests[0]));
}

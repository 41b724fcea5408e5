/// words [TIMES]: joins the text to itself until it is there TIMES times (100), by doubling what
/// there is, and splits the whole into an array of its words.
///
/// There have to be as many words, and the last of each time are the same.
module words;

import report;
import std.conv : to;
import std.string : split;
import text;

bool agree(const string[] all, size_t times)
{
    bool isRight = all.length == times * wordsOfText;
    foreach (time; 1 .. times)
        isRight &= all[time * wordsOfText - 1] == all[$ - 1] && all[time * wordsOfText] == all[0];
    return isRight;
}

int main(string[] arguments)
{
    const times = arguments.length > 1 ? arguments[1].to!uint : 100;
    const once = text.text();
    string whole;
    foreach_reverse (bit; 0 .. 32)
    {
        whole ~= whole;
        if (times >> bit & 1)
            whole ~= once;
    }
    const all = whole.split();
    return report.report(all.agree(times));
}

/// aa_stomp [TIMES]: a table from words of the text to arrays of the places where they stand,
/// filled TIMES times (15). Each time an array is cut to nothing and appended to where it lies, on
/// top of what it held; for each tenth word a part of it is kept, which nothing may be written
/// over, and appending to that has to move.
///
/// The parts that were kept have to hold what they held, and the arrays the places of the words.
module aa_stomp;

import report;
import std.conv : to;
import std.string : split;
import text;

enum size_t kept = 10;

int main(string[] arguments)
{
    const times = arguments.length > 1 ? arguments[1].to!size_t : 15;
    const words = text.text().split();
    uint[][string] places;
    uint[][] parts;
    bool isRight = true;
    foreach (time; 0 .. times)
    {
        foreach (word, ref array; places)
        {
            array.length = 0;
            array.assumeSafeAppend();
        }
        foreach (place, word; words)
        {
            auto array = word in places;
            if (array is null)
            {
                places[word] = null;
                array = word in places;
            }
            *array ~= cast(uint) place;
        }
        parts.length = 0;
        foreach (index, word; words)
            if (index % kept == 0)
            {
                auto array = places[word];
                // Not the end of its block: the appended one lies elsewhere.
                auto part = array[0 .. array.length / 2];
                auto longer = part ~ uint.max;
                part ~= uint.max;
                isRight &= part.ptr !is array.ptr && part == longer;
                parts ~= part;
            }
        foreach (part; parts)
            isRight &= part[$ - 1] == uint.max;
    }
    size_t all;
    foreach (word, array; places)
    {
        all += array.length;
        foreach (place; array)
            isRight &= words[place] == word;
    }
    return report.report(isRight && all == wordsOfText && places.length == differentWords);
}

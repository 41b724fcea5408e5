/// The text that programs of this folder read: made here, and the same in every run. It stands for
/// the file that the suite comes with, the Divine Comedy, and has as many words, distinct words and
/// bytes.
///
/// Invariant: it ends with white space, so texts can be joined without joining words. Called from
/// `main`, before the work begins; what it needs meanwhile is not the collector's.
module text;

import core.stdc.stdlib : free, malloc;
import report : beginWork, Chooser;

/// Words, separated by white space.
enum size_t wordsOfText = 97_676;
/// Of these are different ones.
enum size_t differentWords = 20_795;

// The word of rank r comes perRank / r times, but at least once; this comes close to the wanted
// total, the most frequent one fills it up.
private enum size_t perRank = 9_200;
private enum size_t wordsOfLine = 13, linesOfVerse = 3;
private static immutable string[] syllables = makeSyllables();

private string[] makeSyllables()
{
    string[] all;
    foreach (last; ["r", "n", "s", "l"])
        foreach (vowel; ["a", "e", "i", "o", "è"])
            foreach (first; ["l", "d", "s", "t", "v", "m", "c", "p", "n", "r", "f", "gl", "qu",
                "st"])
                all ~= first ~ vowel ~ last;
    return all;
}

/// The text, in a block of the collector as a file that was read would be. The clock of `report`
/// begins afterwards.
string text()
{
    enum size_t most = wordsOfText * 16;
    auto ranks = cast(ushort*) malloc(wordsOfText * ushort.sizeof);
    auto letters = cast(char*) malloc(most);
    assert(ranks !is null && letters !is null, "no memory for the text");
    scope (exit)
    {
        free(ranks);
        free(letters);
    }
    chooseWords(ranks[0 .. wordsOfText]);
    const length = write(ranks[0 .. wordsOfText], letters[0 .. most]);
    auto made = letters[0 .. length].idup;
    beginWork();
    return made;
}

private void chooseWords(ushort[] ranks) @nogc
{
    size_t place;
    foreach (rank; 0 .. differentWords)
    {
        const times = perRank / (rank + 1);
        foreach (time; 0 .. times ? times : 1)
            ranks[place++] = cast(ushort) rank;
    }
    ranks[place .. $] = 0;
    Chooser chooser;
    foreach_reverse (index; 1 .. ranks.length)
    {
        const other = chooser.between(0, index + 1);
        const moved = ranks[index];
        ranks[index] = ranks[other];
        ranks[other] = moved;
    }
}

private size_t write(const ushort[] ranks, char[] letters) @nogc
{
    size_t length;
    void put(string part)
    {
        letters[length .. length + part.length] = part;
        length += part.length;
    }

    foreach (index, rank; ranks)
    {
        // The digits of the rank; frequent words are short.
        size_t left = rank;
        do
        {
            put(syllables[left % $]);
            left /= syllables.length;
        }
        while (left != 0);
        const number = index + 1;
        put(number == ranks.length || number % wordsOfLine == 0 ? "\n" : " ");
        if (number % (wordsOfLine * linesOfVerse) == 0)
            put("\n");
    }
    return length;
}

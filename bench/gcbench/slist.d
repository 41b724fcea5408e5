/// slist [TIMES]: makes a list of the words of the text, the last one first, TIMES times (100); the
/// words are parts of the text.
///
/// All lists together have to have as many nodes, and the last one has to have the text's words.
module slist;

import report;
import std.conv : to;
import std.string : split;
import text;

struct Node
{
    string word;
    Node* next;
}

Node* listOf(string whole)
{
    Node* list;
    foreach (word; whole.split())
        list = new Node(word, list);
    return list;
}

bool agree(const(Node)* node, string whole)
{
    foreach_reverse (word; whole.split())
    {
        if (node is null || node.word !is word)
            return false;
        node = node.next;
    }
    return node is null;
}

int main(string[] arguments)
{
    const times = arguments.length > 1 ? arguments[1].to!size_t : 100;
    const whole = text.text();
    size_t words;
    Node* list;
    foreach (time; 0 .. times)
    {
        list = listOf(whole);
        for (auto node = list; node !is null; node = node.next)
            words++;
    }
    return report.report(words == times * wordsOfText && agree(list, whole));
}

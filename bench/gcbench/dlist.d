/// dlist [TIMES]: makes a list of the words of the text, linked in both directions and in a circle,
/// TIMES times (100); the words are parts of the text.
///
/// All lists together have to have as many nodes, and the last one read backwards has to have the
/// text's words.
module dlist;

import report;
import std.conv : to;
import std.string : split;
import text;

struct Node
{
    string word;
    Node* next, last;
}

Node* listOf(string whole)
{
    auto circle = new Node;
    circle.next = circle.last = circle;
    foreach (word; whole.split())
    {
        auto node = new Node(word, circle, circle.last);
        circle.last.next = node;
        circle.last = node;
    }
    return circle;
}

bool agree(const Node* circle, string whole)
{
    const(Node)* node = circle;
    foreach_reverse (word; whole.split())
    {
        node = node.last;
        if (node.word !is word)
            return false;
    }
    return node.last is circle;
}

int main(string[] arguments)
{
    const times = arguments.length > 1 ? arguments[1].to!size_t : 100;
    const whole = text.text();
    size_t words;
    Node* circle;
    foreach (time; 0 .. times)
    {
        circle = listOf(whole);
        for (auto node = circle.next; node !is circle; node = node.next)
            words++;
    }
    return report.report(words == times * wordsOfText && agree(circle, whole));
}

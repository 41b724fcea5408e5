/// aa_pointers [NODES]: a graph of NODES (300,000) nodes is copied: a table from pointers to
/// pointers has each node's copy, and another finds the node of a copy. Two graphs, one after the
/// other.
///
/// The copy has to have the same numbers at the same places, and no node of the first.
module aa_pointers;

import report;
import std.conv : to;

enum size_t times = 2;

struct Node
{
    size_t number;
    Node* near, far;
}

int main(string[] arguments)
{
    const nodes = arguments.length > 1 ? arguments[1].to!size_t : 300_000;
    Chooser chooser;
    bool isRight = true;
    foreach (time; 0 .. times)
    {
        auto all = new Node*[nodes];
        foreach (number, ref node; all)
            node = new Node(number);
        foreach (number, node; all)
        {
            node.near = all[(number + 1) % nodes];
            node.far = all[chooser.between(0, nodes)];
        }
        Node*[Node*] copies;
        foreach (node; all)
            copies[node] = new Node(node.number);
        Node*[Node*] originals;
        foreach (node; all)
        {
            auto copy = copies[node];
            copy.near = copies[node.near];
            copy.far = copies[node.far];
            originals[copy] = node;
        }
        foreach (node; all)
        {
            auto copy = copies[node];
            isRight &= copy !is node && originals[copy] is node && copy.number == node.number
                && originals[copy.near] is node.near && originals[copy.far] is node.far;
        }
        isRight &= copies.length == nodes && originals.length == nodes;
        all[] = null;
    }
    return report.report(isRight);
}

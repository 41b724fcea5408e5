/// The language of `sources`: tokens, the tree that is made of them, and how it is written.
///
/// Invariant: names are parts of the text that was parsed; every node but a module knows its
/// parent. Called by `parser`.
module syntax;

import sources : Tally;
import std.array : Appender;
import std.ascii : isAlpha, isAlphaNum, isDigit, isWhite;
import std.conv : to;

/// A part of a text that belongs together.
final class Token
{
    string text;
    size_t place;

    this(string text, size_t place)
    {
        this.text = text;
        this.place = place;
    }
}

/// The tokens of a text; the last one is empty.
Token[] tokensOf(string text)
{
    Token[] all;
    size_t place;
    while (true)
    {
        while (place < text.length && text[place].isWhite)
            place++;
        const first = place;
        if (place == text.length)
            return all ~ new Token("", place);
        const letter = text[place++];
        if (letter.isAlpha)
            while (place < text.length && text[place].isAlphaNum)
                place++;
        else if (letter.isDigit)
            while (place < text.length && text[place].isDigit)
                place++;
        else if (letter == '=' && place < text.length && text[place] == '=')
            place++;
        all ~= new Token(text[first .. place], first);
    }
}

enum Sort : ubyte
{
    module_,
    class_,
    field,
    method,
    parameter,
    return_,
    assign,
    if_,
    while_,
    number,
    name,
    binary,
    call,
}

/// Of the tree: its parts in order, an expression before the statements that it decides about.
class Node
{
    Sort sort;
    Token token;
    Node parent;
    Node[] parts;

    this(Sort sort, Token token)
    {
        this.sort = sort;
        this.token = token;
    }

    Node add(Node part)
    {
        part.parent = this;
        parts ~= part;
        return this;
    }

    /// Whether all parts below know their parents; counts them.
    final bool count(ref Tally tally) const
    {
        final switch (sort)
        {
        case Sort.module_, Sort.parameter:
            break;
        case Sort.class_:
            tally.classes++;
            break;
        case Sort.field:
            tally.fields++;
            break;
        case Sort.method:
            tally.methods++;
            break;
        case Sort.return_, Sort.assign, Sort.if_, Sort.while_:
            tally.statements++;
            break;
        case Sort.number:
            tally.numbers += (cast(const Number) this).value;
            goto case;
        case Sort.name, Sort.binary, Sort.call:
            tally.expressions++;
        }
        bool isRight = true;
        foreach (part; parts)
            isRight &= part.parent is this && part.count(tally);
        return isRight;
    }

    /// Writes it as `sources` does.
    final void write(ref Appender!string text, size_t depth = 0) const
    {
        void indent()
        {
            foreach (level; 0 .. depth)
                text ~= "  ";
        }

        void list(const Node[] nodes)
        {
            text ~= "(";
            foreach (index, node; nodes)
            {
                if (index > 0)
                    text ~= ", ";
                node.write(text);
            }
            text ~= ")";
        }

        void block(const Node[] nodes)
        {
            text ~= " {\n";
            foreach (node; nodes)
                node.write(text, depth + 1);
            indent();
            text ~= "}\n";
        }

        void ended(const Node expression)
        {
            expression.write(text);
            text ~= ";\n";
        }

        final switch (sort)
        {
        case Sort.module_:
            text ~= "module " ~ token.text ~ ";\n";
            foreach (part; parts)
                part.write(text);
            break;
        case Sort.class_:
            text ~= "class " ~ token.text;
            if (const base = (cast(const Class) this).base)
                text ~= " : " ~ base.text;
            block(parts);
            break;
        case Sort.field:
            indent();
            text ~= "int " ~ token.text ~ " = ";
            ended(parts[0]);
            break;
        case Sort.method:
            indent();
            const parameters = (cast(const Method) this).parameters;
            text ~= "int " ~ token.text;
            list(parts[0 .. parameters]);
            block(parts[parameters .. $]);
            break;
        case Sort.return_:
            indent();
            text ~= "return ";
            ended(parts[0]);
            break;
        case Sort.assign:
            indent();
            text ~= token.text ~ " = ";
            ended(parts[0]);
            break;
        case Sort.if_, Sort.while_:
            indent();
            text ~= token.text ~ " (";
            parts[0].write(text);
            text ~= ")";
            block(parts[1 .. $]);
            break;
        case Sort.binary:
            text ~= "(";
            parts[0].write(text);
            text ~= " " ~ token.text ~ " ";
            parts[1].write(text);
            text ~= ")";
            break;
        case Sort.call:
            text ~= token.text;
            list(parts);
            break;
        case Sort.number, Sort.name, Sort.parameter:
            text ~= token.text;
        }
    }
}

final class Class : Node
{
    Token base;

    this(Token name)
    {
        super(Sort.class_, name);
    }
}

final class Method : Node
{
    size_t parameters;

    this(Token name)
    {
        super(Sort.method, name);
    }
}

final class Number : Node
{
    ulong value;

    this(Token token)
    {
        super(Sort.number, token);
        value = token.text.to!ulong;
    }
}

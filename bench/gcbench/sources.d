/// The sources that `parser` parses: a tree of modules in a small language, made here and the same
/// in every run, as long together as those that the suite's parser reads.
///
/// Invariant: the text is written as `parser` writes a tree that it parsed, and `tally` says what
/// is in it. Called from `main`, before the work begins; what it needs meanwhile is not the
/// collector's.
module sources;

import core.stdc.stdlib : malloc;
import core.stdc.string : memcpy;
import report : Chooser;

/// What lies in the sources, counted as they are written.
struct Tally
{
    size_t classes, fields, methods, statements, expressions;
    ulong numbers;
}

private enum size_t room = 1 << 20;
private enum int deepestStatement = 3, deepestExpression = 4;

/// Writes modules, one after the other.
struct Writer
{
    Tally tally;
    private Chooser chooser;
    private char* letters;
    private size_t length;
    private int depth;

    /// The text of a module with so many classes, in a block of the collector as a file that was
    /// read would be.
    string write(size_t number, size_t classes)
    {
        if (letters is null)
            letters = cast(char*) malloc(room);
        assert(letters !is null, "no memory for the sources");
        length = 0;
        put("module m");
        put(number);
        put(";\n");
        foreach (index; 0 .. classes)
            writeClass(index);
        return letters[0 .. length].idup;
    }

    private void put(string part) @nogc
    {
        assert(length + part.length <= room);
        memcpy(letters + length, part.ptr, part.length);
        length += part.length;
    }

    private void put(size_t number) @nogc
    {
        char[20] digits = void;
        size_t first = digits.length;
        do
            digits[--first] = cast(char)('0' + number % 10);
        while ((number /= 10) != 0);
        put(cast(string) digits[first .. $]);
    }

    private void line(string part) @nogc
    {
        foreach (level; 0 .. depth)
            put("  ");
        put(part);
    }

    private void name() @nogc
    {
        static immutable parts = ["node", "left", "total", "index", "place", "x", "buffer",
            "state"];
        put(parts[chooser.between(0, parts.length)]);
        put(chooser.between(0, 100));
    }

    private void writeClass(size_t index) @nogc
    {
        tally.classes++;
        put("class C");
        put(index);
        if (index > 0)
        {
            put(" : C");
            put(index - 1);
        }
        put(" {\n");
        depth++;
        foreach (field; 0 .. chooser.between(1, 6))
        {
            tally.fields++;
            line("int ");
            name();
            put(" = ");
            writeExpression(2);
            put(";\n");
        }
        foreach (method; 0 .. chooser.between(2, 8))
        {
            tally.methods++;
            line("int ");
            name();
            put("(");
            foreach (parameter; 0 .. chooser.between(0, 4))
            {
                if (parameter > 0)
                    put(", ");
                name();
            }
            put(") ");
            writeBlock(deepestStatement);
        }
        depth--;
        put("}\n");
    }

    private void writeBlock(int deeper) @nogc
    {
        put("{\n");
        depth++;
        foreach (statement; 0 .. chooser.between(1, 5))
            writeStatement(deeper - 1);
        depth--;
        line("}\n");
    }

    private void writeStatement(int deeper) @nogc
    {
        tally.statements++;
        const sort = chooser.between(0, deeper > 0 ? 8 : 4);
        if (sort < 4)
        {
            line(sort == 0 ? "return " : "");
            if (sort > 0)
            {
                name();
                put(" = ");
            }
            writeExpression(deepestExpression);
            put(";\n");
            return;
        }
        line(sort < 6 ? "if (" : "while (");
        writeExpression(2);
        put(") ");
        writeBlock(deeper);
    }

    private void writeExpression(int deeper) @nogc
    {
        tally.expressions++;
        const sort = chooser.between(0, deeper > 0 ? 8 : 3);
        if (sort == 0)
        {
            const number = chooser.between(0, 10_000);
            tally.numbers += number;
            put(number);
        }
        else if (sort < 3)
            name();
        else if (sort < 7)
        {
            static immutable operators = [" + ", " - ", " * ", " < ", " == "];
            put("(");
            writeExpression(deeper - 1);
            put(operators[chooser.between(0, operators.length)]);
            writeExpression(deeper - 1);
            put(")");
        }
        else
        {
            name();
            put("(");
            foreach (argument; 0 .. chooser.between(0, 4))
            {
                if (argument > 0)
                    put(", ");
                writeExpression(deeper - 1);
            }
            put(")");
        }
    }
}

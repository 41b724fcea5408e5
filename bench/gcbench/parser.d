/// parser [MODULES]: parses MODULES (300) of `sources` to trees, all of which stay, and writes each
/// of them again, as a tool that works on sources does.
///
/// What is written has to be what was read, and in the trees there have to be as many nodes of each
/// sort as the sources have.
module parser;

import report;
import sources;
import std.array : appender;
import std.ascii : isDigit;
import std.conv : to;
import std.exception : enforce;
import syntax;

enum size_t classesOfModule = 12;

/// Where in the tokens of a text.
struct Parser
{
    Token[] tokens;

    Token next()
    {
        auto token = tokens[0];
        tokens = tokens[1 .. $];
        return token;
    }

    bool isNext(string text) const
    {
        return tokens[0].text == text;
    }

    bool take(string text)
    {
        const isIt = isNext(text);
        if (isIt)
            tokens = tokens[1 .. $];
        return isIt;
    }

    void want(string text)
    {
        enforce(take(text), "want " ~ text ~ " at " ~ tokens[0].place.to!string);
    }

    Node parseModule()
    {
        want("module");
        auto made = new Node(Sort.module_, next());
        want(";");
        while (take("class"))
            made.add(parseClass());
        want("");
        return made;
    }

    Node parseClass()
    {
        auto made = new Class(next());
        if (take(":"))
            made.base = next();
        want("{");
        while (!take("}"))
        {
            want("int");
            auto name = next();
            if (take("="))
            {
                made.add(new Node(Sort.field, name).add(parseExpression()));
                want(";");
            }
            else
                made.add(parseMethod(name));
        }
        return made;
    }

    Node parseMethod(Token name)
    {
        auto made = new Method(name);
        want("(");
        while (!take(")"))
        {
            made.add(new Node(Sort.parameter, next()));
            take(",");
        }
        made.parameters = made.parts.length;
        parseBlock(made);
        return made;
    }

    void parseBlock(Node owner)
    {
        want("{");
        while (!take("}"))
            owner.add(parseStatement());
    }

    Node parseStatement()
    {
        auto first = next();
        if (first.text == "if" || first.text == "while")
        {
            auto made = new Node(first.text == "if" ? Sort.if_ : Sort.while_, first);
            want("(");
            made.add(parseExpression());
            want(")");
            parseBlock(made);
            return made;
        }
        auto made = new Node(first.text == "return" ? Sort.return_ : Sort.assign, first);
        if (made.sort == Sort.assign)
            want("=");
        made.add(parseExpression());
        want(";");
        return made;
    }

    Node parseExpression()
    {
        if (take("("))
        {
            auto left = parseExpression();
            auto made = new Node(Sort.binary, next());
            made.add(left).add(parseExpression());
            want(")");
            return made;
        }
        auto first = next();
        if (first.text[0].isDigit)
            return new Number(first);
        if (!take("("))
            return new Node(Sort.name, first);
        auto made = new Node(Sort.call, first);
        while (!take(")"))
        {
            made.add(parseExpression());
            take(",");
        }
        return made;
    }
}

int main(string[] arguments)
{
    const modules = arguments.length > 1 ? arguments[1].to!size_t : 300;
    Writer writer;
    string[] texts;
    foreach (number; 0 .. modules)
        texts ~= writer.write(number, classesOfModule);
    beginWork();
    Node[] trees;
    bool isRight = true;
    foreach (text; texts)
    {
        trees ~= Parser(tokensOf(text)).parseModule();
        auto again = appender!string;
        trees[$ - 1].write(again);
        isRight &= again.data == text;
    }
    Tally found;
    foreach (tree; trees)
        isRight &= tree.count(found);
    return report.report(isRight && found == writer.tally);
}

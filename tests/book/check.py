#!/usr/bin/env python3
# Walks the book and every other Markdown file of the tree: links and anchors lead somewhere, the
# book's table of contents has each page once, programs in pages are those in examples/, and nothing
# that looks like a command or a program goes untested. Needs nothing but Python. Prints what is
# wrong, one line each, and exits with 1 if anything is. Called by tests/book/run.sh.
#
# Usage: check.py [FOLDER]    the top of the tree, by default this one's

import os
import re
import sys
import textwrap
from pathlib import Path

SKIPPED = {"build", "target", ".git", "node_modules", "vendor"}
# What follows these pages: tests/book/run.sh, or a script of tests/newcomer.
FOLLOWERS = ["tests/book/run.sh", *(f"tests/newcomer/{n}.sh" for n in
             ("libgc", "c", "cpp", "rust", "d"))]

FENCE = re.compile(r"^(```+)\s*(\S*)")
HEADING = re.compile(r"^#{1,6} +(.*?) *#*$")
LINK = re.compile(r"!?\[((?:[^][`]|`[^`]*`|\[[^]]*\])*)\]\(<?([^)\s>]+)>?(?: +\"[^\"]*\")?\)")
CODE = re.compile(r"(`+)(?:(?!\1).)+\1")
FILE = re.compile(r"^<!-- file: (\S+)(?: as (\S+))? -->$")
PART = re.compile(r"^<!-- part of: (\S+) -->$")
SHOWN = re.compile(r"^<!-- only shown: (.+) -->$")
# What ends a line of a program in most of the languages here.
STATEMENT = re.compile(r"[;{}]\s*(//.*|/\*.*\*/\s*)?$", re.M)
FRESH = re.compile(r"^<!-- on a fresh Debian -->$")


def slug(heading):
    """The anchor that a heading gets, by GitHub and by mdBook."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", text.lower()))


class Page:
    """A Markdown file in pieces: prose without code, headings' anchors, fenced blocks."""

    def __init__(self, path):
        self.prose, self.anchors, self.fences = [], set(), []
        marker = fence = None
        seen, coded, before = {}, False, ""
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if fence:
                if line.startswith(fence["ticks"]) and not line.strip("` "):
                    fence = None
                else:
                    fence["text"].append(line)
                continue
            if found := FENCE.match(line):
                fence = {"ticks": found[1], "language": found[2], "text": [], "line": number,
                         "marker": marker, "behind": self.last_fence(number)}
                self.fences.append(fence)
                marker = None
                continue
            if any(kind.match(line) for kind in (FILE, PART, SHOWN, FRESH)):
                marker = line
                continue
            if marker and line.strip():
                self.prose.append((number, "[a marker of a block that is none](\0)"))
                marker = None
            if found := HEADING.match(line):
                anchor = slug(found[1])
                again = seen.get(anchor, 0)
                seen[anchor] = again + 1
                self.anchors.add(f"{anchor}-{again}" if again else anchor)
            self.anchors.update(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", line))
            # Code is no place for links: spans, and what is indented as a block.
            coded = line.startswith("    ") and (coded or not before.strip())
            if not coded:
                self.prose.append((number, line))
            before = line
        if fence:
            self.prose.append((fence["line"], "[a block without an end](\0)"))
        self.text = path.read_text(encoding="utf-8")

    def last_fence(self, number):
        """The language of the block that ends right before this line."""
        for fence in self.fences[-1:]:
            if fence["line"] + len(fence["text"]) + 2 == number and not fence["marker"]:
                return fence["language"]
        return None

    def links(self):
        """Places of links with the link; those in code are none."""
        lines, text = [], ""
        for number, line in self.prose:
            lines.append((len(text), number))
            text += line + "\n"
        # A code span may be a link's text, but no link begins inside of one.
        spans = [match.span() for match in CODE.finditer(text)]
        for match in LINK.finditer(text):
            if not any(low < match.start() < high for low, high in spans):
                yield max(n for at, n in lines if at <= match.start()), match[2]


class Walk:
    def __init__(self, top):
        self.top, self.wrong, self.pages = top, [], {}

    def say(self, path, line, what):
        self.wrong.append(f"{path.relative_to(self.top)}:{line}: {what}")

    def page(self, path):
        if path not in self.pages:
            self.pages[path] = Page(path)
        return self.pages[path]

    def markdown(self):
        for folder, names, files in os.walk(self.top):
            names[:] = sorted(n for n in names if n not in SKIPPED)
            yield from (Path(folder) / n for n in sorted(files) if n.endswith(".md"))

    def check_links(self, path):
        for line, link in self.page(path).links():
            if link == "\0":
                self.say(path, line, "a marker without its block, or a block without an end")
                continue
            if re.match(r"[a-z]+:", link):
                continue
            place, _, anchor = link.partition("#")
            target = (path.parent / place).resolve() if place else path
            if not target.exists():
                self.say(path, line, f"{link}: there is no {place}")
            elif self.top != target and self.top not in target.parents:
                self.say(path, line, f"{link} leads out of the tree")
            elif anchor and target.suffix == ".md" and anchor not in self.page(target).anchors:
                self.say(path, line, f"{link}: there is no heading #{anchor}")

    def check_contents(self):
        contents = self.top / "docs/SUMMARY.md"
        named = [(contents.parent / link).resolve() for _, link in self.page(contents).links()]
        for path in sorted({p for p in named if named.count(p) > 1}):
            self.say(contents, 1, f"{path.name} stands twice")
        for path in self.markdown():
            if contents.parent in path.parents and path != contents and path not in named:
                self.say(contents, 1, f"{path.relative_to(contents.parent)} is missing")

    def check_blocks(self, path, followed):
        for fence in self.page(path).fences:
            line, marker, text = fence["line"], fence["marker"], "\n".join(fence["text"]) + "\n"
            if marker and FRESH.match(marker):
                if path.name not in followed or fence["language"] != "sh":
                    self.say(path, line, "commands for a fresh system that no test runs")
            elif marker and not SHOWN.match(marker):
                whole = FILE.match(marker)
                source = self.top / (whole or PART.match(marker))[1]
                if not source.is_file():
                    self.say(path, line, f"there is no {source.relative_to(self.top)}")
                elif whole and source.read_text() != text:
                    self.say(path, line, f"is not what {whole[1]} is")
                elif not any(textwrap.indent(text, " " * depth) in source.read_text()
                             for depth in (0, 4, 8)):
                    self.say(path, line, f"is not in {source.relative_to(self.top)}")
            elif marker:
                pass
            elif fence["language"] == "sh":
                if path.name not in followed:
                    self.say(path, line, "commands that no test runs")
            elif fence["language"] == "text" and fence["behind"] == "sh":
                pass
            elif path.name in followed:
                self.say(path, line, "a block that is no file, part of one, or row of commands")
        for number, text in self.indented(path):
            first = text.split("\n")[0].strip()
            if path.name in followed:
                self.say(path, number, f"code that no test looks at: {first}")
            elif STATEMENT.search(text):
                self.say(path, number, f"code that nothing compiles: {first}")

    def indented(self, path):
        """Blocks by indentation, which have no language and no marker, by their first line."""
        inside, first, before = False, None, ""
        for number, line in enumerate([*self.page(path).text.splitlines(), "end"], 1):
            if line.startswith("```"):
                inside = not inside
            if first and line.strip() and not line.startswith("    "):
                yield first
                first = None
            elif first:
                first = (first[0], first[1] + line + "\n")
            elif not inside and line.startswith("    ") and not before.strip() and line.strip():
                first = (number, line + "\n")
            before = line

    def check_examples(self):
        """Each program of examples/ is told of in a page."""
        told = "".join(page.text for path, page in self.pages.items() if "docs" in path.parts)
        for path in sorted((self.top / "examples").rglob("*")):
            name = path.relative_to(self.top)
            if path.is_file() and path.suffix in (".c", ".cpp", ".d", ".rs", ".scm", ".lisp"):
                if str(name) not in told and path.stem not in told and str(name.parent) not in told:
                    self.say(path, 1, "no page of the book tells of it")

    def all(self):
        followed = set()
        for script in FOLLOWERS:
            text = (self.top / script).read_text() if (self.top / script).exists() else ""
            followed.update(re.findall(r"\b[\w-]+\.md\b", text))
        for path in self.markdown():
            self.check_links(path)
            self.check_blocks(path, followed if "docs" in path.parts else set())
        self.check_contents()
        self.check_examples()
        return self.wrong


if __name__ == "__main__":
    here = Path(__file__).resolve().parents[2]
    wrong = Walk(Path(sys.argv[1]).resolve() if sys.argv[1:] else here).all()
    print("\n".join(wrong) or "nothing is wrong")
    sys.exit(bool(wrong))

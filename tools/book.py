#!/usr/bin/env python3
# What mdBook leaves to others: links of pages to files outside of docs/. As a preprocessor of
# mdBook (book.toml) it has them lead to `source/PATH.txt`, and `book.py copy OUT` puts these files
# into the book that was built, whose pages say which they are. Called by mdBook and tools/book.sh.

import html
import json
import os
import re
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
DOCS = TOP / "docs"
LINK = re.compile(r"(\]\()(\.\.?/[^)\s#]*)(#[^)\s]*)?(\))")


def copied(name):
    """The name that a file has in the book. mdBook would take `.md` in it for one of its pages."""
    return re.sub(r"\.md$", "-md", str(name)) + ".txt"


def moved(chapter, match):
    """The link with its target inside of the book; untouched where it is there already."""
    here = DOCS / Path(chapter["path"]).parent
    target = Path(os.path.normpath(here / match[2]))
    if DOCS in target.parents or TOP not in target.parents or not target.exists():
        return match[0]
    up = "../" * (len(Path(chapter["path"]).parts) - 1)
    name = target.relative_to(TOP)
    inside = f"{name}/index.html" if target.is_dir() else copied(name)
    return f"{match[1]}{up}source/{inside}{match[4]}"


def rewrite(items):
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter and chapter.get("path"):
            chapter["content"] = LINK.sub(lambda match: moved(chapter, match), chapter["content"])
        if chapter:
            rewrite(chapter["sub_items"])


def page(folder, names):
    rows = "".join(f'<li><a href="{html.escape(copied(n))}">{html.escape(n)}</a></li>\n'
                   for n in names)
    title = html.escape(str(folder))
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f"</head><body>\n<h1>{title}</h1>\n<ul>\n{rows}</ul>\n</body></html>\n")


def copy_file(name, out):
    target = out / "source" / copied(name)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes((TOP / name).read_bytes())


def copy(out):
    """The files that the pages of the book lead to, below source/."""
    wanted = set()
    for built in out.rglob("*.html"):
        wanted.update(re.findall(r'href="(?:\.\./)*source/([^"#]+)', built.read_text()))
    for name in sorted(wanted):
        if name.endswith(".txt"):
            copy_file(re.sub(r"-md$", ".md", name[:-4]), out)
            continue
        folder = Path(name).parent
        files = sorted(str(p.relative_to(TOP / folder)) for p in (TOP / folder).rglob("*")
                       if p.is_file() and not {"target", "build"} & set(p.parts))
        for each in files:
            copy_file(folder / each, out)
        index = out / "source" / folder / "index.html"
        index.parent.mkdir(parents=True, exist_ok=True)
        index.write_text(page(folder, files))


if __name__ == "__main__":
    if sys.argv[1:2] == ["supports"]:
        sys.exit(0)
    if sys.argv[1:2] == ["copy"]:
        copy(Path(sys.argv[2]))
        sys.exit(0)
    _, book = json.load(sys.stdin)
    rewrite(book.get("items") or book.get("sections"))
    json.dump(book, sys.stdout)

#!/usr/bin/env python3
# Walks a book that mdBook built: every link of every page, and every picture, is there, anchors
# too. Prints what is not. Usage: built.py FOLDER. Called by tests/book/run.sh.

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlparse


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.anchors.update(a for a in (attributes.get("id"), attributes.get("name")) if a)
        for name in ("href", "src"):
            if attributes.get(name) and tag != "base":
                self.links.append(attributes[name])


def main(folder):
    # The page that holds all of them has its links from where it is printed.
    pages = {p: Page(p) for p in folder.rglob("*.html") if p.name not in ("print.html", "404.html")}
    wrong = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlparse(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                wrong.append(f"{path.relative_to(folder)}: {link} is not there")
            elif parts.fragment and target in pages and \
                    unquote(parts.fragment) not in pages[target].anchors:
                wrong.append(f"{path.relative_to(folder)}: {link}: no such anchor")
    if len(pages) < 30:
        wrong.append(f"the book has {len(pages)} pages")
    print("\n".join(sorted(set(wrong))) or f"{len(pages)} pages, nothing is wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))

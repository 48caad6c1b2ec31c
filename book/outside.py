"""mdBook preprocessor: points links to files outside the book to the repository."""

import json
import posixpath
import re
import sys

LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)\s]+)\)")
INTRODUCTION = "introduction.md"


def target(link, folder, code):
    path, hash_, anchor = link.partition("#")
    path = posixpath.normpath(posixpath.join(folder, path))
    if path == "README.md":
        path = "docs/" + INTRODUCTION
    inside = path.startswith("docs/")
    return (path.removeprefix("docs/") if inside else f"{code}/{path}") + hash_ + anchor


def visit(items, code):
    for chapter in (item["Chapter"] for item in items if isinstance(item, dict) and "Chapter" in item):
        # The introduction is the text of README.md, one folder up.
        folder = "" if chapter["path"] == INTRODUCTION else "docs"
        new = lambda found: f"]({target(found[1], folder, code)})"
        chapter["content"] = LINK.sub(new, chapter["content"])
        visit(chapter["sub_items"], code)


if sys.argv[1:2] == ["supports"]:
    sys.exit(0)
context, book = json.load(sys.stdin)
visit(book.get("items", book.get("sections")), context["config"]["output"]["html"]["git-repository-url"] + "/blob/main")
json.dump(book, sys.stdout)

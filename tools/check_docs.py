#!/usr/bin/env python3
"""Checks the documents against the tree: every link, every path in back quotes and every line of
quoted code exists. Prints each mismatch; exit code 1 if there is one."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYERS = "runtime|ops|actors|apps|tests|tools|examples|recipes|docs|cmake|bench"


def pages():
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")),
            *sorted((ROOT / "bench/notes").glob("*.md"))]


def anchors(page):
    """The anchors that GitHub derives from a page's headings."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    titles = re.findall(r"^#+ (.*)$", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", t.lower()).strip().replace(" ", "-") for t in titles}


def broken_links(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'src="([^"]+)"', text)
    for target in targets:
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            yield f"link to {target}: no such file"
        elif anchor and anchor not in anchors(file):
            yield f"link to {target}: no such heading"


def missing_paths(page):
    """Paths in back quotes that look like files of the tree and do not exist."""
    for path in re.findall(rf"`((?:{LAYERS})/[\w./+-]+)`", page.read_text()):
        if not (ROOT / path).exists():
            yield f"`{path}`: no such file"


def quoted_code(page):
    """A ```cpp block that begins with `// path` must be in that file, white space aside."""
    for path, code in re.findall(r"```cpp\n// ([\w./-]+)\n(.*?)```", page.read_text(), flags=re.S):
        if not (ROOT / path).is_file():
            yield f"quotes {path}: no such file"
            continue
        source = "".join((ROOT / path).read_text().split())
        for part in code.split("…"):  # an ellipsis stands for omitted lines
            if "".join(part.split()) not in source:
                yield f"quotes {path}, which has no such lines:\n{part.strip()}"


def main():
    wrong = []
    for page in pages():
        for check in (broken_links, missing_paths, quoted_code):
            wrong += [f"{page.relative_to(ROOT)}: {problem}" for problem in check(page)]
    for problem in wrong:
        print(problem, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Holds the documentation against the tree: links and paths lead somewhere, and the program in
README.md is the one in examples/. `--write` copies the program into README.md."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "examples/train_in_30_lines/main.cpp"
LAYERS = "runtime|ops|actors|apps|tests|tools|examples|recipes|docs|cmake|bench"


def pages():
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def anchors(page):
    """GitHub's names of a page's headings."""
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
    """Paths in back quotes that name a file of the tree."""
    for path in re.findall(rf"`((?:{LAYERS})/[\w./+-]+)`", page.read_text()):
        if not (ROOT / path).exists():
            yield f"`{path}`: no such file"


def program_block(text):
    return re.search(r"(```cpp\n)(.*?)(```)", text, flags=re.S)


def quoted_code(page):
    """A ```cpp block that begins with `// path` is quoted from there, apart from white space."""
    for path, code in re.findall(r"```cpp\n// ([\w./-]+)\n(.*?)```", page.read_text(), flags=re.S):
        if not (ROOT / path).is_file():
            yield f"quotes {path}: no such file"
            continue
        source = "".join((ROOT / path).read_text().split())
        for part in code.split("…"):  # an ellipsis leaves something out
            if "".join(part.split()) not in source:
                yield f"quotes {path}, which has no such lines:\n{part.strip()}"


def main():
    readme = ROOT / "README.md"
    text = readme.read_text()
    block = program_block(text)
    if "--write" in sys.argv[1:]:
        readme.write_text(text[: block.start(2)] + PROGRAM.read_text() + text[block.end(2) :])
        return 0
    wrong = []
    if not block or block.group(2) != PROGRAM.read_text():
        wrong.append(f"README.md: its program is not {PROGRAM.relative_to(ROOT)}; "
                     "tools/check_docs.py --write copies it")
    for page in pages():
        for check in (broken_links, missing_paths, quoted_code):
            wrong += [f"{page.relative_to(ROOT)}: {problem}" for problem in check(page)]
    for problem in wrong:
        print(problem, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

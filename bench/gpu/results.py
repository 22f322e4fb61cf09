"""What was found, written after every step as results.json and results.md, so that a run that is
killed loses the step that it was in."""

import collections
import contextlib
import errno
import fcntl
import json
import os
import sys
import time
from pathlib import Path

MARKS = {"passed": "passed", "failed": "**FAILED**", "refused": "refused", "not run": "not run"}


class NotRun(Exception):
    """This machine lacks what the step needs."""


class Refused(Exception):
    """Troupe refuses an option of the step."""


class Results:
    def __init__(self, folder, resume, measured_with, note=""):
        self.folder = Path(folder)
        self.measured_with = measured_with
        self.note = note
        self.steps = {}
        self.path = self.folder / "results.json"
        try:
            (self.folder / "logs").mkdir(parents=True, exist_ok=True)
            self.lock()
            if resume and self.path.exists() or self.path.is_dir():
                self.read()
        except OSError as error:
            sys.exit(f"first_light: error: {error.filename}: {error.strerror}")

    def lock(self):
        """To the end of the process: two calls would lose each other's steps."""
        self.locked = open(self.folder / ".lock", "w")
        try:
            fcntl.flock(self.locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"first_light: error: another first_light uses {self.folder}; name another folder")
        except OSError:
            pass  # a file system without locks

    def read(self):
        """The steps of an earlier call."""
        try:
            found = json.loads(self.path.read_text())
            if "steps" in found and "measured_with" not in found:
                sys.exit(f"first_light: error: {self.path} is of another version; name another folder")
            earlier, self.steps = found["measured_with"], found["steps"]
            self.markdown()  # what it cannot show is damaged
            pairs = {name: (earlier.get(name), here) for name, here in self.measured_with.items()}
        except (ValueError, KeyError, TypeError, AttributeError, IsADirectoryError):
            sys.exit(f"first_light: error: {self.path} is damaged; name another folder")
        for name, (there, here) in pairs.items():
            if there != here:
                sys.exit(f"first_light: error: {self.path} was measured with another {name}: {there}; "
                         f"here it is {here}; name another folder")

    def log(self, name):
        return self.folder / "logs" / f"{name}.log"

    def has(self, name):
        """Whether a step needs no other run: it ran on this or an earlier call, whatever came out."""
        return self.steps.get(name, {}).get("status") in ("passed", "failed", "refused")

    def counted(self):
        """"19 steps passed, 2 not run"."""
        counts = collections.Counter(step["status"] for step in self.steps.values())
        return ", ".join([f"{counts['passed']} steps passed",
                          *(f"{counts[status]} {status}" for status in MARKS if counts[status] and status != "passed")])

    def add(self, name, status, seconds, found):
        self.steps[name] = {"status": status, "seconds": round(seconds, 1),
                            "date": time.strftime("%Y-%m-%d %H:%M:%S"), **found}
        self.write(self.path, json.dumps({"note": self.note, "measured_with": self.measured_with,
                                          "steps": self.steps}, indent=1) + "\n")
        self.write(self.folder / "results.md", self.markdown())

    @staticmethod
    def write(path, text):
        """Whole or not at all."""
        part = path.with_suffix(".part")
        try:
            part.write_text(text)
            os.replace(part, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                part.unlink()
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            sys.exit(f"first_light: error: {path}: {error.strerror}; "
                     f"{'make room and use --resume' if full else 'name another folder'}")

    def markdown(self):
        lines = ["# First light", "", *([self.note, ""] if self.note else []),
                 *(f"- {name}: {cell(value)}" for name, value in self.measured_with.items()), "",
                 "| step | result | seconds | what was found |", "|---|---|---|---|"]
        for name, step in self.steps.items():
            summary = step.get("why") or step.get("summary", "")
            lines.append(f"| {name} | {MARKS[step['status']]} | {step['seconds']} | {cell(summary)} |")
        for name, step in self.steps.items():
            if step.get("table"):
                lines += ["", f"## {name}", "", *table(step["table"])]
            if step.get("details"):
                lines += ["", f"## {name}", "", *(f"- {cell(text)}" for text in step["details"])]
        return "\n".join(lines) + "\n"


def cell(text):
    return " ".join(str(text).replace("|", "\\|").split())[:600]


def table(rows):
    """Dictionaries of the same keys as lines of Markdown."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    return lines + ["| " + " | ".join(cell(row.get(name, "")) for name in names) + " |" for row in rows]

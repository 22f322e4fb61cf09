"""Monarch's side of the row `control`: blocking calls of one actor in a process of its own.

Each line of the input, `time WINDOWS CALLS`, is answered with the median round trip of CALLS calls,
in microseconds, of so many windows. A call carries 64 bytes, which must come back. Ends with its
input, and a while after a request where Monarch does not answer.
"""

import os
import signal
import statistics
import sys
import time

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what Monarch itself prints is no answer

from monarch.actor import Actor, endpoint, this_host  # noqa: E402

BODY = b"x" * 64
PATIENCE = 120  # seconds


class Echo(Actor):
    @endpoint
    def echo(self, body: bytes) -> bytes:
        return body


def window(actor, calls):
    times = []
    for _ in range(calls):
        begin = time.perf_counter()
        answer = actor.echo.call_one(BODY).get()
        times.append(1e6 * (time.perf_counter() - begin))
        if answer != BODY:
            raise RuntimeError(f"a wrong answer: {answer!r}")
    return statistics.median(times)


def main():
    signal.alarm(PATIENCE)
    processes = this_host().spawn_procs(per_host={"process": 1})
    actor = processes.spawn("echo", Echo)
    window(actor, 200)  # warms up
    signal.alarm(0)
    for line in sys.stdin:
        _, windows, calls = line.split()
        signal.alarm(PATIENCE)
        print(*(f"{window(actor, int(calls)):.2f}" for _ in range(int(windows))), file=answers,
              flush=True)
        signal.alarm(0)
    processes.stop().get()


main()

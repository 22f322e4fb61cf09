"""The rows about the control plane: messages between two processes, and worlds of many members; see
rows.py."""

import statistics

from harness import (ALLOWED, BIN, ROOT, Figure, Row, Worker, all_cores, python_with_monarch,
                     run_timed)

TRIPS = 100  # round trips of a window
OURS = {"member": "from handler to handler", "member-thread": "from a thread that waits"}
ALONE = {"zeromq-curve": "ZeroMQ with CURVE", "zeromq": "ZeroMQ without"}


class Monarch:
    """Calls of a Monarch actor, in turn with Troupe's messages. Without Monarch a note says why."""

    def __init__(self):
        self.readings, self.worker, self.why = [], None, None
        try:
            script = ROOT / "bench" / "control" / "monarch_call.py"
            self.worker = Worker("Monarch", [python_with_monarch(), script])
            self.worker.ask("time 1", TRIPS)  # it answers
        except RuntimeError as error:
            self.give_up(error)

    def give_up(self, error):
        self.why = error
        if self.worker:
            self.worker.close()
            self.worker = None

    def run(self, windows):
        try:
            if self.worker:
                self.readings.append(statistics.median(self.worker.ask(f"time {windows}", TRIPS)))
        except RuntimeError as error:
            self.give_up(error)

    def figure(self):
        return None if self.why else Figure("us", self.readings, "Monarch's actor call")

    def close(self):
        if self.worker:
            self.worker.close()


def round_trips(windows):
    """Microseconds of each kind, the median over the windows of one run."""
    text = run_timed([BIN / "control_bench", windows, TRIPS])[2]
    named = (line.split(":") for line in text.splitlines())
    return {name: statistics.median(map(float, values.split())) for name, values in named}


def control(repetitions, quick):
    """Round trips of 64 bytes between two processes over TCP on loopback: Troupe's, ZeroMQ's and
    a blocking call of a Monarch actor, in turn. Several processes of the first two, since the
    system decides once per process which threads share a core."""
    windows, turns, monarch = 20, repetitions * (1 if quick else 3), Monarch()
    try:
        found = {name: [] for name in (*OURS, *ALONE)}
        for _ in range(turns):
            for name, reading in round_trips(windows).items():
                found.setdefault(name, []).append(reading)
            monarch.run(windows)
    finally:
        monarch.close()
    figures = {name: Figure("us", values, {**OURS, **ALONE}.get(name, name))
               for name, values in found.items()}
    return control_rows(figures, monarch)


def control_rows(figures, monarch):
    handler, thread, curve, plain = (figures[name] for name in (*OURS, *ALONE))
    actor, rows = monarch.figure(), []
    for key, mine in (("control", handler), ("control_thread", thread)):
        notes = [f"{plain.what} CURVE {plain}: {mine.median / plain.median:.2f} x"]
        notes.append(f"{actor.what} {actor}: {mine.median / actor.median:.2f} x" if actor
                     else f"Monarch was not measured: {monarch.why}")
        ratio = mine.median / curve.median
        rows.append(Row(key, f"control message of 64 B and its answer, {mine.what}", mine, ratio,
                        "<= 1.3", f"{ratio:.2f} x", curve, curve.what, notes,
                        [plain] + ([actor] if actor else [])))
    return rows


def worlds(repetitions):
    """A dict for each world that world_bench forms, by column, in milliseconds and MiB."""
    with all_cores():  # each member stands for a host
        lines = run_timed([BIN / "world_bench", "-n", repetitions])[2].splitlines()
    names = lines[0].split()
    made = [dict(zip(names, map(float, line.split()))) for line in lines[1:]]
    for one in made:
        one["whole"] = one["join"] + one["barrier"] + one["leave"]
        one["cpu_whole"] = one["cpu_join"] + one["cpu_barrier"] + one["cpu_leave"]
        one["coordinator"] /= 1024
        one["memory"] = one["coordinator"] + one["members"] * one["member"] / 1024
    return made


def world(repetitions, _quick):
    """Worlds of 10 to 1,000 members: the growth of time and memory from the smallest to the
    largest. The target is linear growth."""
    made = worlds(repetitions)
    sizes = sorted({round(one["members"]) for one in made})
    least, most = sizes[0], sizes[-1]

    def figures(column, unit):
        return {size: Figure(unit, [one[column] for one in made if one["members"] == size],
                             f"{size:,} members") for size in sizes}

    def growth(by_size):
        return by_size[most].median / by_size[least].median

    def row(key, what, column, unit="ms", extra=(), others=()):
        by_size, times = figures(column, unit), most / least
        mine, grown = by_size[most], growth(by_size)
        between = [by_size[size] for size in sizes[1:-1]]
        return Row(key, f"world of {most:,} members: {what}", mine, grown, f"<= {times:g}",
                   f"{grown:.1f} times for {times:g} times as many", by_size[least],
                   by_size[least].what, [*(f"{one.what} {one}" for one in between), *extra],
                   [*between, *others])

    def phase(key, what, column, cores="", then=()):
        used = figures(f"cpu_{column}", "ms")
        return row(key, what, column, extra=[f"the coordinator's processor time {used[most]}, "
                                             f"{growth(used):.1f} times{cores}", *then],
                   others=[used[least], used[most]])

    close = figures("close", "ms")
    coordinator, member = figures("coordinator", "MiB"), figures("member", "KiB")
    return [phase("world", "join, barrier and leave", "whole", f"; on {len(ALLOWED)} cores"),
            phase("world_join", "all joined", "join"),
            phase("world_barrier", "all past a barrier", "barrier"),
            phase("world_leave", "all left", "leave",
                  then=[f"then all close their connections in {close[most]}, "
                        f"{growth(close):.1f} times"]),
            row("world_memory", "memory of coordinator and members", "memory", "MiB",
                [f"the coordinator's {coordinator[most]}, {growth(coordinator):.1f} times; a "
                 f"member's {member[most]}, with {least} members {member[least]}"],
                [coordinator[least], coordinator[most], member[least], member[most]])]

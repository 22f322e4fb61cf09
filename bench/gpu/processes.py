"""Programs that end with everything that they have started."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


@contextlib.contextmanager
def started(command, **options):
    """A process in a session of its own. At the end, all that it has started and that still runs is
    killed: what compute-sanitizer watches would keep the GPU. If this program is killed, so is the
    process, but not what it has started."""
    process = subprocess.Popen([str(part) for part in command], start_new_session=True,
                               preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL), **options)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def finished(command, timeout, **options):
    """As subprocess.run with the output captured as text."""
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options) as process:
        output, errors = process.communicate(timeout=timeout)
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def end_on_signals():
    """A signal that ends this program unwinds it: those sessions do not get the terminal's or a
    batch system's."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup does
            signal.signal(number, lambda number, _: sys.exit(128 + number))

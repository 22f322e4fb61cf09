#!/usr/bin/env python3
"""Removes each wait of the code for GPUs, one at a time, and runs the tests that must then fail: on the emulator, which
reports accesses that nothing orders, or with fences that pass by hand. On a GPU such a mistake would show only now and
then. Tests that do not end within a minute count as failed, and are named so: with all waits they take seconds. The list
is made by hand. Exit code 1 if tests pass without one of the waits.

usage: removed_waits.py BUILD NINJA   (a folder that Ninja has built; what lacks a wait is made in BUILD/tests/waits)"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD, NINJA = Path(sys.argv[1]).resolve(), sys.argv[2]
FOLDER = BUILD / "tests/waits"
CUDA, RUNTIME = "cuda_tests", "runtime_tests"

# What is waited for; the file; a whole line of it; what takes its place; the tests.
WAITS = (
    ("the stream of a receiver, for the sender's fence", "runtime/flow/port.cpp",
     "owner_->stream()->wait(packet.fence, Awaits::results);", "return packet;", RUNTIME, "Fence.*"),
    ("the stream of a replacement, for the state", "runtime/flow/orders.cpp",
     "stream->wait(committed.fence, Awaits::results);", "stream->device();", RUNTIME, "Fence.*"),
    ("effects, for the fence of their action", "runtime/flow/actor_host.cpp",
     "hold_back(self, stream, fence, std::move(behind));", "dispatch(self, behind);", RUNTIME, "Fence.*"),
    ("the end of an actor, for its last fence", "runtime/flow/actor_host.cpp",
     "if (hosted.held_back.empty()) return report_and_quit(self);", "return report_and_quit(self);", RUNTIME, "Fence.*"),
    ("a block of memory, for streams that used it", "runtime/device/block_uses.cpp",
     "stream.wait(fence, Awaits::memory);", "fence->done();", CUDA, "CudaStream.*"),
    ("a block of memory, for the earlier of them", "runtime/device/block_uses.cpp",
     "for (const StreamPtr& stream : uses.streams) uses.before.push_back({stream, stream->mark()});",
     "if (!uses.streams.empty()) uses.before.push_back({uses.streams.back(), uses.streams.back()->mark()});", CUDA,
     "CudaStream.*"),
    ("a graph's memory, for streams that used it", "actors/captured_program.cpp",
     "    device.backend->block_uses(device.index).use(block, *stream_);", "", CUDA, "GraphCalls.*"),
    ("a loader, for images that another one copied", "actors/data/resident_images.cpp",
     "given_to->wait(copy.copied, Awaits::results);", "given_to->device();", CUDA, "CudaResident.AStreamWaits*"),
    ("a stream, for the event of another", "ops/cuda/stream.cpp",
     'check(cudaStreamWaitEvent(stream_.get(), fence->event().get()), "wait for an event");', "", CUDA, "CudaStream.*"),
    ("fences, for the host steps of a stream whose results are taken", "ops/cuda/stream.cpp",
     "if (what == Awaits::results && !fence->done()) steps_.add(std::make_shared<After>(fence));", "", CUDA, "CudaCopy.*"),
    ("the host, for a stream", "ops/cuda/stream.cpp",
     'check(cudaStreamSynchronize(stream_.get()), "wait for a stream");', "", CUDA,
     "CudaStream.EndsAllFences*"),
    ("the host, for the host steps of a stream", "ops/cuda/stream.cpp", "steps_.wait();", "", CUDA, "CudaCopy.*"),
    ("the host, for errors of the device meanwhile", "ops/cuda/stream.cpp",
     "check_work();  // a step does nothing once the context is lost, by work of another stream too", "", CUDA,
     "CudaHostSteps.*"),
    ("the host, for a tensor that it copies to the CPU", "ops/on_device.cpp", "synchronize(stream);", "", CUDA,
     "CudaResident.AStreamWaits*"),
    ("others, for a graph that uses memory which is freed", "actors/captured_program.cpp",
     "        device.backend->block_uses(device.index).use(block, *stream_);", "", CUDA, "GraphCalls.*"),
    ("a capture, for other streams: it refuses to go on", "ops/cuda/stream.cpp",
     "if (fence->event().query() == cudaErrorNotReady)", "if (fence->event().query() == cudaErrorUnknown)", CUDA,
     "GraphCalls.*"),
    ("a capture, for the first passes of other streams", "ops/cuda/stream.cpp",
     "std::unique_lock alone(preparing());", "std::unique_lock<std::shared_mutex> alone;", CUDA, "GraphCalls.*"),
    ("memory that is given back, for captures", "ops/cuda/backend.cpp", "const NoCapture lock;", "", CUDA,
     "GraphCalls.*"),
    ("pinned memory that is given back, for captures", "ops/cuda/pinned.cpp", "const NoCapture lock;", "", CUDA,
     "GraphCalls.*"),
    ("the copy out of pinned memory, for the device", "ops/cuda/copy.cpp",
     "const cudaError_t status = copied.query();", "const cudaError_t status = cudaSuccess;", CUDA, "CudaCopy.*"),
    ("the end of a pinned tensor, for the device", "ops/cuda/copy.cpp",
     "explicit Departure(const Tensor& source) : from(source) {}", "explicit Departure(const Tensor&) {}", CUDA,
     "CudaCopy.*"),
    ("a copy that fails, for the device that reads a pinned tensor", "ops/cuda/copy.cpp",
     "cudaStreamSynchronize(given);  // it reads the tensor", "", CUDA, "CudaCopy.IsOver*"),
    ("a copy that fails, for the device that writes to pinned memory", "ops/cuda/copy.cpp",
     "cudaStreamSynchronize(given);  // it uses the pinned memory", "", CUDA, "CudaCopy.IsOver*"),
    ("a copy that fails, for the device that reads pinned memory", "ops/cuda/pinned.cpp",
     "cudaStreamSynchronize(stream);  // the destructor gives it back", "", CUDA, "CudaCopy.IsOver*"),
    ("a block of pinned memory, for the device", "ops/cuda/pinned.cpp",
     "blocks.owed, [](const Owed& one) { return one.event.query() != cudaErrorNotReady; });",
     "blocks.owed, [](const Owed&) { return true; });", CUDA, "CudaCopy.*"),
)


def run(command):
    """A shell command in the build folder; what it prints."""
    done = subprocess.run(command, shell=True, cwd=BUILD, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{done.stdout[-4000:]}{done.stderr[-4000:]}removed_waits: error: this failed: {command}")
    return done.stdout


def only(found, what):
    if len(found) != 1:
        sys.exit(f"removed_waits: error: there are {len(found)} {what}, not one\n  try: correct {Path(__file__).name}")
    return found[0]


def without(file, line, instead):
    """The text of the file without the wait."""
    lines = (ROOT / file).read_text().split("\n")
    at = only([i for i, text in enumerate(lines) if line in (text, text.strip())], f"lines '{line.strip()}' in {file}")
    lines[at] = instead
    return "\n".join(lines)


def build(program, file, text):
    """The program with this text in place of a file: its object comes before the archive that has the other one."""
    commands = run(f"{NINJA} -t commands bin/{program}").splitlines()
    compiled = only([one for one in commands if one.endswith(f" -c {ROOT / file}")], f"commands that compile {file}")
    linked = only([part for one in commands for part in one.split(" && ") if f" -o bin/{program} " in part],
                  f"commands that link {program}")
    source, made = FOLDER / Path(file).name, FOLDER / f"{Path(file).name}.o"
    source.write_text(text)
    object_file = compiled.split(" -o ")[1].split()[0]
    run(compiled.replace(object_file, str(made)).replace(str(ROOT / file), str(source)))
    others = linked.replace(f" {object_file} ", " ")
    run(others.replace(f" -o bin/{program} ", f" {made} -o {FOLDER / program} "))
    return FOLDER / program


def outcome(program, tests):
    """Without a wait: NOT FOUND, if the tests pass."""
    try:
        done = subprocess.run([program, f"--gtest_filter={tests}", "--gtest_brief=1"], timeout=60, capture_output=True,
                             check=False)
    except subprocess.TimeoutExpired:
        return "timed out"
    return "NOT FOUND" if done.returncode == 0 else "found"


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for program, tests in sorted({(program, tests) for *_, program, tests in WAITS}):
        if outcome(BUILD / "bin" / program, tests) != "NOT FOUND":
            sys.exit(f"removed_waits: error: {program} {tests} fails with all waits")
    found = 0
    for what, file, line, instead, program, tests in WAITS:
        seen = outcome(build(program, file, without(file, line, instead)), tests)
        found += seen != "NOT FOUND"
        print(f"{seen:10} {what}", flush=True)
    print(f"the tests notice {found} of {len(WAITS)} removed waits")
    return 0 if found == len(WAITS) else 1


if __name__ == "__main__":
    sys.exit(main())

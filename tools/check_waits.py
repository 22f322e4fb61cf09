#!/usr/bin/env python3
"""Removes each wait of the code for GPUs, one at a time, from a copy of the tree in build/waits, and runs the tests that
must then fail: on the emulator, which reports accesses that nothing orders, or with fences that pass by hand. On a GPU
such a mistake would show only now and then. Tests that do not end within a minute count as failed, and are named so:
with all waits they take seconds. The list is made by hand. Exit code 1 if tests pass without one of the waits. Argument:
how many files to compile at once."""

import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path("build/waits")
SOURCE, BUILD = FOLDER / "source", FOLDER / "build"
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
     'check(cudaStreamSynchronize(stream_.get()), "wait for a stream");', "", CUDA, "CudaStream.*:CudaCopy.*"),
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
    ("a block of pinned memory, for the device", "ops/cuda/pinned.cpp",
     "blocks.owed, [](const Owed& one) { return one.event.query() != cudaErrorNotReady; });",
     "blocks.owed, [](const Owed&) { return true; });", CUDA, "CudaCopy.*"),
)


def copy_tree():
    """Leaves unchanged files as they are, so that a repetition builds little."""
    listed = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard"], capture_output=True, text=True, check=True)
    names = {name for name in listed.stdout.split("\0") if name and Path(name).is_file()}
    for target in SOURCE.rglob("*"):
        if target.is_file() and str(target.relative_to(SOURCE)) not in names:
            target.unlink()
    for name in names:
        source, target = Path(name), SOURCE / name
        if not (target.is_file() and target.read_bytes() == source.read_bytes()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{done.stdout[-4000:]}{done.stderr[-4000:]}check_waits: error: this failed: {' '.join(map(str, command))}")


def build():
    run("cmake", "--build", BUILD, "-j", *sys.argv[1:2], "--target", RUNTIME, CUDA)


def outcome(program, tests):
    """Without a wait: NOT FOUND, if the tests pass."""
    try:
        done = subprocess.run([BUILD / "bin" / program, f"--gtest_filter={tests}", "--gtest_brief=1"], timeout=60,
                             capture_output=True, check=False)
    except subprocess.TimeoutExpired:
        return "timed out"
    return "NOT FOUND" if done.returncode == 0 else "found"


def without(file, line, instead):
    """The text of the file without the wait; exits if it has no such line, or more than one."""
    lines = (SOURCE / file).read_text().split("\n")
    at = [i for i, text in enumerate(lines) if line in (text, text.strip())]
    if len(at) != 1:
        sys.exit(f"check_waits: error: {file} has {len(at)} lines '{line.strip()}'\n  try: correct tools/check_waits.py")
    lines[at[0]] = instead
    return "\n".join(lines)


def main():
    copy_tree()
    mutants = [without(file, line, instead) for _, file, line, instead, _, _ in WAITS]
    run("cmake", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-S", SOURCE, "-B", BUILD)
    print("building build/waits (the first time this takes minutes)", flush=True)
    build()
    for program, tests in sorted({(program, tests) for *_, program, tests in WAITS}):
        if outcome(program, tests) != "NOT FOUND":
            sys.exit(f"check_waits: error: {program} {tests} fails with all waits")
    found = 0
    for (what, file, *_, program, tests), mutant in zip(WAITS, mutants):
        original = (SOURCE / file).read_text()
        (SOURCE / file).write_text(mutant)
        try:
            build()
            seen = outcome(program, tests)
        finally:
            (SOURCE / file).write_text(original)
        found += seen != "NOT FOUND"
        print(f"{seen:10} {what}", flush=True)
    print(f"the tests notice {found} of {len(WAITS)} removed waits")
    return 0 if found == len(WAITS) else 1


if __name__ == "__main__":
    sys.exit(main())

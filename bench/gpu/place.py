"""Where the programs and libraries are: of a build, or of a folder that bench/gpu/pack made."""

import importlib.util
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# Of CUDA, which is too large to be carried: the machine has them, from a toolkit or from PyTorch.
CUDA_LIBRARIES = ("libcudart", "libcublasLt", "libcudnn", "libnvrtc")


def cuda_folders():
    """Where libraries of CUDA may lie, the most wanted first."""
    folders = [Path(os.environ["CUDA_HOME"]) / "lib64"] if "CUDA_HOME" in os.environ else []
    folders += [Path("/usr/local/cuda/lib64"), Path("/usr/local/cuda/targets/x86_64-linux/lib")]
    wheels = importlib.util.find_spec("nvidia")
    for packages in wheels.submodule_search_locations if wheels else []:
        folders += sorted(Path(packages).glob("*/lib"))
    folders += [Path("/usr/lib/x86_64-linux-gnu"), Path("/usr/lib64")]
    return [folder for folder in folders if folder.is_dir()]


def needed(library):
    """The names of the libraries of CUDA that a file is linked with."""
    text = library.read_bytes()
    names = set()
    for stem in CUDA_LIBRARIES:
        at = text.find(stem.encode() + b".so.")
        if at >= 0:
            names.add(text[at:text.index(b"\0", at)].decode())
    return sorted(names)


class Place:
    def __init__(self, build, emulator):
        self.build = Path(build) if build else ROOT / "build" / "release"
        self.emulator = emulator
        self.carried = self.build / "lib" / "carried"
        self.library = (self.build / "tests" / "cuda" / "libtroupe_cuda_on_cpu.so" if emulator
                        else self.build / "lib" / "troupe" / "libtroupe_cuda.so")
        self.tests = self.build / "bin" / ("cuda_tests" if emulator else "cuda_device_tests")
        self.troupe = self.build / "bin" / "troupe"
        self.cuda = {}  # name: path
        self.loader = []
        self.find_cuda()
        self.environment = {**os.environ, "TROUPE_CUDA_LIBRARY": str(self.library),
                            "TROUPE_SOURCE_DIR": str(ROOT), "NO_COLOR": "1"}
        if emulator:
            self.environment.setdefault("CUDA_ON_CPU_PLACES", "61")  # for speed
        folders = [self.carried] if self.carried.is_dir() else []
        folders += dict.fromkeys(path.parent for path in self.cuda.values())
        if folders and not emulator:
            self.environment["LD_LIBRARY_PATH"] = ":".join(
                [*map(str, folders), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
        self.choose_loader()

    def find_cuda(self):
        if self.emulator or not self.library.exists():
            return
        for name in needed(self.library):
            for folder in cuda_folders():
                if (folder / name).exists():
                    self.cuda[name] = folder / name
                    break

    def choose_loader(self):
        """The machine's own C and C++ libraries, unless they are older than those of the build."""
        own = self.carried / "runtime" / "ld-linux-x86-64.so.2"
        if not own.exists() or self.answers([self.troupe, "--version"]):
            return
        self.loader = [own, "--library-path",
                       f"{own.parent}:{self.environment.get('LD_LIBRARY_PATH', '')}"]

    def answers(self, command):
        try:
            return subprocess.run([str(part) for part in command], env=self.environment,
                                  capture_output=True, timeout=60).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            return False

    def command(self, program, *words):
        return [str(part) for part in (*self.loader, program, *words)]

    def missing(self):
        """What keeps programs for a GPU from running here; None if nothing does."""
        for path in (self.troupe, self.tests, self.library):
            if not path.exists():
                return f"{path} is missing; ./dev build --cuda makes it"
        if self.emulator:
            return None
        for name in needed(self.library):
            if name not in self.cuda:
                return f"{name}, with which libtroupe_cuda.so is linked, is nowhere on this machine"
        return None

    def description(self):
        return {"libraries": {name: str(path.resolve()) for name, path in self.cuda.items()},
                "c_libraries": "the carried one" if self.loader else "the machine's",
                "emulator": self.emulator}

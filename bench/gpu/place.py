"""Where the programs and libraries are: of a build, or of a folder that bench/gpu/pack made."""

import importlib.util
import os
import re
import subprocess
from pathlib import Path

from processes import finished

ROOT = Path(__file__).resolve().parent.parent.parent
# Of CUDA, which is too large to be carried: the machine has them, from a toolkit or from PyTorch.
CUDA_LIBRARIES = ("libcudart", "libcublasLt", "libcudnn", "libnvrtc")
LOADERS = ("ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1")


def cuda_folders():
    """Where libraries of CUDA may lie that the loader does not find, the most wanted first."""
    folders = [Path(os.environ["CUDA_HOME"]) / "lib64"] if "CUDA_HOME" in os.environ else []
    folders += [Path("/usr/local/cuda/lib64"),
                *sorted(Path("/usr/local/cuda/targets").glob("*/lib"))]
    folders += [ROOT / "build" / toolkit / "lib" for toolkit in ("cuda-toolkit", "cuda-toolkit-12")]
    wheels = importlib.util.find_spec("nvidia")
    for packages in wheels.submodule_search_locations if wheels else []:
        folders += sorted(Path(packages).glob("*/lib"))
    folders += [Path(os.environ["CONDA_PREFIX"]) / "lib"] if "CONDA_PREFIX" in os.environ else []
    folders += [Path("/usr/lib/x86_64-linux-gnu"), Path("/usr/lib/aarch64-linux-gnu"),
                Path("/usr/lib64")]
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
        self.environment = {**os.environ, "TROUPE_CUDA_LIBRARY": str(self.library),
                            "TROUPE_SOURCE_DIR": str(ROOT), "NO_COLOR": "1"}
        if emulator:
            self.environment.setdefault("CUDA_ON_CPU_PLACES", "61")  # for speed
        self.folders = [self.carried] if self.carried.is_dir() and not emulator else []
        self.use_folders()
        self.own_loader = self.chosen_loader()
        self.cuda = {}  # name: path, None if it is not found
        if not emulator and self.library.exists():
            self.find_cuda()

    def use_folders(self):
        if self.folders:
            given = os.environ.get("LD_LIBRARY_PATH")
            self.environment["LD_LIBRARY_PATH"] = ":".join(
                [*dict.fromkeys(map(str, self.folders)), *([given] if given else [])])

    def find_cuda(self):
        """Folders are added only for what is not found without, and after those of the others: another
        cuDNN in one must not replace that of the build."""
        self.cuda = self.linked()
        missing = [name for name, path in self.cuda.items() if not path]
        if not missing:
            return
        # cuDNN has the same name for each CUDA: first the folders with more of what is missing.
        folders = sorted(cuda_folders(), key=lambda folder: sum(
            (folder / name).exists() for name in missing), reverse=True)
        self.folders += [path.parent for path in self.cuda.values() if path]
        for name in missing:
            self.folders += [folder for folder in folders if (folder / name).exists()][:1]
        self.use_folders()
        self.cuda = self.linked()

    def linked(self):
        """The libraries of CUDA that the library is linked with, as the loader finds them."""
        # As ldd does, but it asks the machine's own loader; --list ends at the first missing one.
        traced = {"LD_TRACE_LOADED_OBJECTS": "1"} if self.loader else {}
        try:
            made = finished([*(self.loader or ["ldd"]), self.library], 60,
                            env={**self.environment, **traced})
        except (OSError, subprocess.TimeoutExpired):
            return {}
        found = re.findall(r"^\s*(\S+) => (/\S+|not found)", made.stdout + made.stderr, re.M)
        return {name: None if path == "not found" else Path(path)
                for name, path in found if name.startswith(CUDA_LIBRARIES)}

    def chosen_loader(self):
        """None where the machine's own C and C++ libraries are no older than those of the build."""
        carried = [self.carried / "runtime" / name for name in LOADERS]
        own = next(filter(Path.exists, carried), None)
        return own if own and not self.answers([self.troupe, "--version"]) else None

    @property
    def loader(self):
        """The words before a program."""
        if not self.own_loader:
            return []
        return [self.own_loader, "--library-path",
                f"{self.own_loader.parent}:{self.environment.get('LD_LIBRARY_PATH', '')}"]

    def answers(self, command):
        try:
            return finished(command, 60, env=self.environment).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            return False

    def command(self, program, *words):
        return [str(part) for part in (*self.loader, program, *words)]

    def missing(self):
        """What keeps programs for a GPU from running here; None if nothing does."""
        for path in (self.troupe, self.tests, self.library):
            if not path.exists():
                command = "./dev test" if self.emulator else "./dev build --cuda"
                return f"{path} is missing; {command} makes it"
        for name, path in self.cuda.items():
            if not path:
                return (f"the loader does not find {name}, with which libtroupe_cuda.so is linked; "
                        "LD_LIBRARY_PATH can name its folder")
        return None

    def description(self):
        return {"libraries": {name: str(path.resolve()) for name, path in self.cuda.items()},
                "c_libraries": "the carried one" if self.loader else "the machine's",
                "emulator": self.emulator}

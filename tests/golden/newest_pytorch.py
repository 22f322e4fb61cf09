#!/usr/bin/env python3
"""Checks that Troupe reads and trains what another PyTorch exports, by default the newest of PyPI:

    ./dev build && tests/golden/newest_pytorch.py [VERSION]

Makes build/pytorch-VERSION-venv anew (6 GB, minutes), exports the models of graph_models.py with it,
trains them in f64 there, and runs the tests ExportedModel and ExportedNames of ops_tests on these
files. Exit code 1 if Troupe refuses a file or computes other losses or weights.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
from harness import install  # noqa: E402

PACKAGES = ["torchvision", "numpy", "safetensors", "onnx", "onnxscript"]
VERSIONS = """import torch, torch._export.serde.schema as schema
print(f"PyTorch {torch.__version__}, schema {'.'.join(map(str, schema.SCHEMA_VERSION))}")"""


def main():
    if sys.argv[1:] and not sys.argv[1][0].isdigit():
        sys.exit(__doc__)
    version = sys.argv[1] if sys.argv[1:] else "newest"
    tests = ROOT / "build" / "release" / "bin" / "ops_tests"
    if not tests.exists():
        sys.exit(f"{tests} is missing; ./dev build makes it")
    venv, files = (ROOT / "build" / f"pytorch-{version}-{kind}" for kind in ("venv", "files"))
    torch = "torch" if version == "newest" else f"torch=={version}"
    if error := install(venv, torch, *PACKAGES):
        sys.exit(f"{venv} could not be made: {error}")
    python = venv / "bin" / "python"
    subprocess.run([python, "-c", VERSIONS], check=True)
    subprocess.run([python, ROOT / "tests" / "golden" / "make_graphs.py", "--to", files], check=True)
    ran = subprocess.run([tests, "--gtest_brief=1", "--gtest_filter=*ExportedModel*:*ExportedNames*"],
                         env={**os.environ, "TROUPE_GOLDEN": str(files)})
    sys.exit(ran.returncode)


if __name__ == "__main__":
    main()

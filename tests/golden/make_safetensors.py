"""Writes safetensors.safetensors with the Python library (pip install safetensors==0.8.0 numpy).

The tests read the file and hold what Troupe writes against it byte by byte; see safetensors_test.cpp
for the values. Run it again only to change them.
"""

import pathlib

import numpy
from safetensors.numpy import save_file

count = lambda shape, dtype: numpy.arange(numpy.prod(shape)).reshape(shape).astype(dtype)  # noqa: E731

save_file(
    {
        "fc.weight": count((2, 3), "float32") / 4 - 1,
        "fc.bias": count((2,), "float32"),
        "bn.num_batches_tracked": numpy.array(7, dtype="int64"),
        "half": count((3,), "float16"),
        "double": count((1, 2), "float64") + 0.5,
        "bytes": count((5,), "uint8"),
        "flags": numpy.array([True, False, True]),
        "empty": count((0, 4), "float32"),
        "signed": count((3,), "int32") - 1,
        "größe": count((1,), "uint16"),
    },
    pathlib.Path(__file__).parent / "safetensors.safetensors",
    metadata={"format": "pt"},
)

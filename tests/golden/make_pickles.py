"""Writes pickles/*.pickle with Python's pickle (pip install numpy==2.4.6): a batch of CIFAR with two images.

One for each protocol that differs, one with the pixels in column-major order, and one as Python 2 wrote it, which is
how CIFAR is published: protocol 2, texts as bytes, NumPy's functions under their old names. The tests compare the
values; run it again only to change them.
"""

import io
import pathlib
import pickle
import struct

import numpy

PIXELS = (numpy.arange(2 * 3072) * 7 % 251).astype(numpy.uint8).reshape(2, 3072)


class Python2Pickler(pickle._Pickler):
    """Texts and bytes as `str` of Python 2, and the modules of an old NumPy."""

    dispatch = pickle._Pickler.dispatch.copy()

    def save_str(self, text):
        raw = text.encode("latin1") if isinstance(text, str) else text
        short = len(raw) < 256
        self.write((b"U" + bytes([len(raw)]) if short else b"T" + struct.pack("<i", len(raw))) + raw)
        self.memoize(text)

    dispatch[str] = dispatch[bytes] = save_str

    def save_global(self, item, name=None):
        module = item.__module__.replace("numpy._core", "numpy.core")
        self.write(f"c{module}\n{item.__name__}\n".encode())
        self.memoize(item)

    dispatch[type] = dispatch[type(lambda: 0)] = dispatch[type(len)] = save_global


def python2(value):
    stream = io.BytesIO()
    Python2Pickler(stream, 2).dump(value)
    return stream.getvalue()


def batch(text, pixels=PIXELS):
    return {
        text("batch_label"): text("training batch 1 of 5"),
        text("labels"): [3, 9],
        text("fine_labels"): [99, 0],
        text("coarse_labels"): [19, 1],
        text("data"): pixels,
        text("filenames"): [text("leptodactylus_s_000004.png"), text("camion_s_000148.png")],
    }


folder = pathlib.Path(__file__).parent / "pickles"
folder.mkdir(exist_ok=True)
files = {f"protocol{protocol}": pickle.dumps(batch(str), protocol) for protocol in (0, 2, 4, 5)}
files["column_major"] = pickle.dumps(batch(str, numpy.asfortranarray(PIXELS)), 5)
files["python2"] = python2(batch(str))
files["bytes"] = pickle.dumps(batch(str.encode), 3)
files["values"] = pickle.dumps(
    {
        "none": None,
        "numbers": [True, False, 0, -1, 255, 256, 65536, -(2**31), 2**62, 0.5, -1e300],
        "text": "größe \N{SNOWMAN}",
        "nested": ((), [], {}, (1, (2, (3, [4])))),
        "doubles": numpy.array([[1.5, -2.0], [0.25, 3.0]]).T,
        "big_endian": numpy.array([1, 2], dtype=">i4"),
        "column_major": numpy.asfortranarray(numpy.arange(6, dtype=numpy.uint8).reshape(2, 3)),
    },
    4,
)
files["values0"] = pickle.dumps({"numbers": [True, -1, 2**62, 0.5], "text": "größe \N{SNOWMAN}\n\\"}, 0)
for name, data in files.items():
    loaded = pickle.loads(data, encoding="latin1")
    key = "data" if "data" in loaded else b"data"
    assert key not in loaded or (loaded[key] == PIXELS).all()
    (folder / f"{name}.pickle").write_bytes(data)

#!/usr/bin/env python3
"""Writes arrays/*.zarr: the arrays of make_arrays.py as zarr stores them, in folders. Needs numpy
and zarr (3.1.6 wrote them).

format_2.zarr and format_3.zarr have chunks that divide all axes, and the arrays unevenly, in the
compression that is zarr's default for each format. The chunk of y_train's first samples has no
file, because they equal its fill value. codecs_2.zarr and codecs_3.zarr have the numbers from 0 to
999 in each compression, byte order and naming of chunks that is read.
"""

import shutil

import numpy
import zarr
from numcodecs import GZip, Blosc, Zlib, Zstd
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ZstdCodec

from make_arrays import ARRAYS, FOLDER

NUMBERS = numpy.arange(1000, dtype="<u2").reshape(100, 10)


def group(name, zarr_format):
    shutil.rmtree(FOLDER / name, ignore_errors=True)
    return zarr.open_group(FOLDER / name, mode="w", zarr_format=zarr_format)


def write_arrays(name, zarr_format):
    into = group(name, zarr_format)
    for key, array in ARRAYS.items():
        chunks = (4, 2, 2) if array.ndim == 3 else (1,)
        into.create_array(key, data=array, chunks=chunks)


def write_codecs_2():
    into = group("codecs_2.zarr", 2)
    for name, codec in {"plain": None, "zlib": Zlib(5), "gzip": GZip(5), "zstd": Zstd(5),
                        "blosc_lz4": Blosc("lz4"), "blosc_zlib": Blosc("zlib", shuffle=0),
                        "blosc_zstd": Blosc("zstd", shuffle=Blosc.BITSHUFFLE)}.items():
        into.create_array(name, data=NUMBERS, chunks=(100, 10), compressors=codec)
    into.create_array("big", data=NUMBERS.astype(">u2"), chunks=(100, 10))
    into.create_array("slash", data=NUMBERS, chunks=(60, 10),
                      chunk_key_encoding={"name": "v2", "separator": "/"})


def write_codecs_3():
    into = group("codecs_3.zarr", 3)
    for name, codecs in {"plain": None, "gzip": GzipCodec(), "zstd": ZstdCodec(checksum=True),
                         "blosc": BloscCodec(), "crc32c": Crc32cCodec(),
                         "zstd_crc32c": [ZstdCodec(), Crc32cCodec()],
                         "crc32c_gzip": [Crc32cCodec(), GzipCodec()]}.items():
        into.create_array(name, data=NUMBERS, chunks=(100, 10), compressors=codecs)
    into.create_array("big", data=NUMBERS, chunks=(100, 10), serializer=BytesCodec(endian="big"))
    for name, encoding in {"dots": {"name": "default", "separator": "."},
                           "keys_2": {"name": "v2", "separator": "."}}.items():
        into.create_array(name, data=NUMBERS, chunks=(60, 10), chunk_key_encoding=encoding)


def main():
    write_arrays("format_2.zarr", 2)
    write_arrays("format_3.zarr", 3)
    write_codecs_2()
    write_codecs_3()


if __name__ == "__main__":
    main()

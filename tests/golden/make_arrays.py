#!/usr/bin/env python3
"""Writes arrays/: the same arrays as NumPy, h5py and netCDF store them. Needs numpy, h5py and
netCDF4.

contiguous.h5 begins behind a user block. chunked.h5 has chunks that divide all axes, and the array
unevenly; packed.h5 has also the filters shuffle, gzip and fletcher32, big-endian numbers and a user
block. netcdf.nc has an unlimited dimension of training samples, and the filters shuffle and gzip.
"""

from pathlib import Path

import h5py
import netCDF4
import numpy

FOLDER = Path(__file__).resolve().parent / "arrays"
ARRAYS = {"x_train": numpy.arange(60, dtype="<f4").reshape(10, 2, 3),
          "y_train": numpy.arange(10, dtype="<i8") % 3,
          "x_test": numpy.arange(12, dtype="<f4").reshape(2, 2, 3),
          "y_test": numpy.array([0, 2], dtype="<i8")}


def write_h5(name, swapped=False, userblock_size=0, **how):
    with h5py.File(FOLDER / name, "w", userblock_size=userblock_size) as file:
        for key, array in ARRAYS.items():
            kept = dict(how)
            if "chunks" in how and array.ndim == 1:
                kept.update(chunks=(4,), maxshape=(None,))
            stored = array.astype(array.dtype.newbyteorder(">")) if swapped else array
            file.create_dataset(key, data=stored, dtype=stored.dtype, **kept)


def write_nc(name):
    with netCDF4.Dataset(FOLDER / name, "w") as file:
        file.createDimension("train", None)
        file.createDimension("test", 2)
        file.createDimension("height", 2)
        file.createDimension("width", 3)
        for key, array in ARRAYS.items():
            dimensions = (key[2:], "height", "width")[: array.ndim]
            file.createVariable(key, array.dtype, dimensions, compression="zlib")[:] = array


def main():
    FOLDER.mkdir(exist_ok=True)
    for key, array in ARRAYS.items():
        numpy.save(FOLDER / f"{key}.npy", array)
    numpy.savez(FOLDER / "stored.npz", **ARRAYS)
    numpy.savez_compressed(FOLDER / "deflated.npz", **ARRAYS)
    write_h5("contiguous.h5", userblock_size=512)
    write_h5("swapped.h5", swapped=True)
    chunks = {"chunks": (4, 2, 2), "maxshape": (None, 2, 3)}
    write_h5("chunked.h5", **chunks)
    write_h5("packed.h5", swapped=True, userblock_size=512, compression="gzip", shuffle=True,
             fletcher32=True, **chunks)
    write_nc("netcdf.nc")


if __name__ == "__main__":
    main()

"""Troupe's counter-based random numbers (runtime/random.h) in NumPy: Philox4x32-10 and FNV-1a."""

import numpy as np


def operation_id(path):
    """32-bit FNV-1a of an operation's dotted path."""
    value = 2166136261
    for byte in path.encode():
        value = ((value ^ byte) * 16777619) & 0xFFFFFFFF
    return value


def blocks(count, *, seed, step=0, micro_batch=0, operation=0):
    """The four 32-bit numbers of blocks 0 ... count - 1 of one stream, as [count, 4]."""
    u64 = np.uint64
    low = u64(0xFFFFFFFF)
    c = [np.arange(count, dtype=u64)]
    c += [np.full(count, word, dtype=u64) for word in (operation, micro_batch, step)]
    k = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        p0 = u64(0xD2511F53) * c[0]
        p1 = u64(0xCD9E8D57) * c[2]
        c = [(p1 >> u64(32)) ^ c[1] ^ u64(k[0]), p1 & low, (p0 >> u64(32)) ^ c[3] ^ u64(k[1]), p0 & low]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(c, axis=1).astype(np.uint32)


def uniform01(bits):
    """Uniform in [0, 1) with 24 bits."""
    return (bits >> np.uint32(8)).astype(np.float32) * np.float32(2**-24)


def elements(count, **key):
    """Element e takes number e % 4 of block e / 4, as initial weights and dropout do."""
    return uniform01(blocks((count + 3) // 4, **key).reshape(-1)[:count])


def normals(count, **key):
    """Normal numbers by Box and Muller: element e takes number e % 4 of block e / 4."""
    bits = blocks((count + 3) // 4, **key).reshape(-1, 2).astype(np.float64)
    radius = np.sqrt(-2.0 * np.log((bits[:, 0] + 1.0) * 2.0**-32))
    angle = 2.0 * np.pi * (bits[:, 1] * 2.0**-32)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)[:count]


def uniform(name, shape):
    """The tests' U(-1, 1): element e is the first number of block e of the stream of this name."""
    first = blocks(int(np.prod(shape)), seed=11, operation=operation_id(name))[:, 0]
    return (2.0 * uniform01(first).astype(np.float64) - 1.0).reshape(shape)

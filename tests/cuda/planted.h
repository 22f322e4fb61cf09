#pragma once
// Kernels with mistakes, which the emulator must find, and their correct counterparts.

#include "runtime/tensor/device.h"

namespace troupe::testing {

inline constexpr int planted_count = 64;  ///< elements of x and y, which are written, and of fresh
struct PlantedArrays {
  float *x, *y;
  float* fresh;  ///< nobody has written it
  float* host;   ///< memory of the host
};
/// Gives one kernel to the stream.
using PlantedKernel = void (*)(const Stream&, const PlantedArrays&);

void misses_syncthreads(const Stream&, const PlantedArrays&);
void has_syncthreads(const Stream&, const PlantedArrays&);
void misses_syncwarp(const Stream&, const PlantedArrays&);
void shuffles_instead_of_syncwarp(const Stream&, const PlantedArrays&);
void has_syncwarp(const Stream&, const PlantedArrays&);
void writes_beyond(const Stream&, const PlantedArrays&);
void reads_beyond(const Stream&, const PlantedArrays&);
void writes_the_same(const Stream&, const PlantedArrays&);
void blocks_write_the_same(const Stream&, const PlantedArrays&);
void blocks_read_each_other(const Stream&, const PlantedArrays&);
void writes_what_is_read(const Stream&, const PlantedArrays&);
void writes_what_another_read(const Stream&, const PlantedArrays&);
void reads_unwritten(const Stream&, const PlantedArrays&);
void reads_unwritten_shared(const Stream&, const PlantedArrays&);
void names_lanes_that_left(const Stream&, const PlantedArrays&);
void names_lanes_that_are_there(const Stream&, const PlantedArrays&);
void gives_different_masks(const Stream&, const PlantedArrays&);
void diverges_to_two_barriers(const Stream&, const PlantedArrays&);
void leaves_before_a_barrier(const Stream&, const PlantedArrays&);
void stands_still(const Stream&, const PlantedArrays&);
void is_misaligned(const Stream&, const PlantedArrays&);
void writes_host_memory(const Stream&, const PlantedArrays&);
void writes_bytes(const Stream&, const PlantedArrays&);
void misses_bytes(const Stream&, const PlantedArrays&);

/// y = 2 x by a kernel that is correct.
void doubles(const Stream&, const float* x, float* y);
/// Of the host, as far as the emulator sees it.
float read_by_host(const float* x);
void write_by_host(float* x, float value);

}  // namespace troupe::testing

#include "ops/cuda/launch.h"
#include "planted.h"

namespace troupe::testing {
namespace {

using cuda::Launch;
using cuda::Pack;

constexpr unsigned count = planted_count;

__device__ unsigned thread() { return threadIdx.x; }

template <bool Waits>
__global__ void reverse(const float* x, float* y) {
  __shared__ float tile[count];
  tile[thread()] = x[thread()];
  if constexpr (Waits) __syncthreads();
  y[thread()] = tile[count - 1 - thread()];
}

enum class Meets { nowhere, in_shuffle, in_barrier };
template <Meets Where>
__global__ void swap_neighbours(const float* x, float* y) {
  __shared__ float tile[32];
  tile[thread()] = x[thread()];
  float added = 0;
  if constexpr (Where == Meets::in_shuffle) added = __shfl_xor_sync(0xffffffffu, added, 1);
  if constexpr (Where == Meets::in_barrier) __syncwarp();
  y[thread()] = tile[thread() ^ 1] + added;
}

__global__ void shift(const float* x, unsigned from, float* y, unsigned to) {
  y[thread() + to] = x[thread() + from];
}

__global__ void write_one(float* y) { y[0] = static_cast<float>(thread()); }

__global__ void write_one_by_block(float* y) {
  if (thread() == 0) y[0] = static_cast<float>(blockIdx.x);
}

__global__ void read_other_block(float* y) {
  if (thread() > 0) return;
  y[blockIdx.x] = 1;
  y[2 + blockIdx.x] = y[1 - blockIdx.x];
}

__global__ void move_down(float* y) {
  const float next = y[(thread() + 1) % count];
  y[thread()] = next;
}

// The last of the readers writes.
__global__ void write_what_all_read(float* y, float* x) {
  x[thread()] = y[0];
  if (thread() == 31) y[0] = 1;
}

__global__ void copy_shared(float* y) {
  __shared__ float tile[count];
  if (thread() < 8) tile[thread()] = 0;
  __syncthreads();
  y[thread()] = tile[thread()];
}

template <unsigned Mask>
__global__ void add_half_warps(const float* x, float* y) {
  if (thread() >= 16) return;
  y[thread()] = __shfl_xor_sync(Mask, x[thread()], 8);
}

__global__ void vote_with_two_masks(float* y) {
  const unsigned mask = thread() < 16 ? 0xffffffffu : 0xffff0000u;
  y[thread()] = static_cast<float>(__ballot_sync(mask, 1));
}

__global__ void meet_at_two_barriers(float* y) {
  if (thread() < 32) {
    y[thread()] = 1;
    __syncthreads();
  } else {
    y[thread()] = 2;
    __syncthreads();
  }
}

__global__ void leave_before_barrier(float* y) {
  if (thread() < 32) return;
  __syncthreads();
  y[thread()] = 1;
}

__global__ void wait_for_each_other(float* y) {
  if (thread() == 0)
    __syncthreads();
  else
    __syncwarp();
  y[thread()] = 1;
}

__global__ void copy_packs(const float* x, float* y) {
  if (thread() < 8)
    reinterpret_cast<Pack<float, 4>*>(y)[thread()] =
        reinterpret_cast<const Pack<float, 4>*>(x)[thread()];
}

// Neighbours write bytes of one word, and read the word later.
template <bool Waits>
__global__ void write_bytes(float* y, float* sum) {
  auto* bytes = reinterpret_cast<unsigned char*>(y);
  bytes[thread()] = 0;
  if constexpr (Waits) __syncthreads();
  if (thread() < count / 4) sum[thread()] = y[thread()];
}

__global__ void twice(const float* x, float* y) { y[thread()] = 2 * x[thread()]; }

}  // namespace

void misses_syncthreads(const Stream& stream, const PlantedArrays& a) {
  Launch(stream, 1, count)(reverse<false>, a.x, a.y);
}
void has_syncthreads(const Stream& stream, const PlantedArrays& a) {
  Launch(stream, 1, count)(reverse<true>, a.x, a.y);
}
void misses_syncwarp(const Stream& stream, const PlantedArrays& a) {
  Launch(stream, 1, 32)(swap_neighbours<Meets::nowhere>, a.x, a.y);
}
void shuffles_instead_of_syncwarp(const Stream& stream, const PlantedArrays& a) {
  Launch(stream, 1, 32)(swap_neighbours<Meets::in_shuffle>, a.x, a.y);
}
void has_syncwarp(const Stream& stream, const PlantedArrays& a) {
  Launch(stream, 1, 32)(swap_neighbours<Meets::in_barrier>, a.x, a.y);
}
void writes_beyond(const Stream& stream, const PlantedArrays& a) {
  Launch(stream, 1, count)(shift, a.x, 0, a.y, 1);
}
void reads_beyond(const Stream& stream, const PlantedArrays& a) {
  Launch(stream, 1, count)(shift, a.x, 1, a.y, 0);
}
void writes_the_same(const Stream& stream, const PlantedArrays& a) {
  Launch(stream, 1, count)(write_one, a.y);
}
void blocks_write_the_same(const Stream& stream, const PlantedArrays& a) {
  Launch(stream, 2, 32)(write_one_by_block, a.y);
}
void blocks_read_each_other(const Stream& stream, const PlantedArrays& a) {
  Launch(stream, 2, 32)(read_other_block, a.y);
}
void writes_what_is_read(const Stream& stream, const PlantedArrays& a) {
  Launch(stream, 1, count)(move_down, a.y);
}
void writes_what_another_read(const Stream& stream, const PlantedArrays& a) {
  Launch(stream, 1, 32)(write_what_all_read, a.y, a.x);
}
void reads_unwritten(const Stream& stream, const PlantedArrays& a) {
  Launch(stream, 1, count)(shift, a.fresh, 0, a.y, 0);
}
void reads_unwritten_shared(const Stream& stream, const PlantedArrays& a) {
  Launch(stream, 1, count)(copy_shared, a.y);
}
void names_lanes_that_left(const Stream& stream, const PlantedArrays& a) {
  Launch(stream, 1, 32)(add_half_warps<0xffffffffu>, a.x, a.y);
}
void names_lanes_that_are_there(const Stream& stream, const PlantedArrays& a) {
  Launch(stream, 1, 32)(add_half_warps<0xffffu>, a.x, a.y);
}
void gives_different_masks(const Stream& stream, const PlantedArrays& a) {
  Launch(stream, 1, 32)(vote_with_two_masks, a.y);
}
void diverges_to_two_barriers(const Stream& stream, const PlantedArrays& a) {
  Launch(stream, 1, count)(meet_at_two_barriers, a.y);
}
void leaves_before_a_barrier(const Stream& stream, const PlantedArrays& a) {
  Launch(stream, 1, count)(leave_before_barrier, a.y);
}
void stands_still(const Stream& stream, const PlantedArrays& a) {
  Launch(stream, 1, count)(wait_for_each_other, a.y);
}
void is_misaligned(const Stream& stream, const PlantedArrays& a) {
  Launch(stream, 1, 32)(copy_packs, a.x + 1, a.y);
}
void writes_host_memory(const Stream& stream, const PlantedArrays& a) {
  Launch(stream, 1, count)(shift, a.x, 0, a.host, 0);
}
void writes_bytes(const Stream& stream, const PlantedArrays& a) {
  Launch(stream, 1, count)(write_bytes<true>, a.y, a.x);
}
void misses_bytes(const Stream& stream, const PlantedArrays& a) {
  Launch(stream, 1, count)(write_bytes<false>, a.y, a.x);
}
void doubles(const Stream& stream, const float* x, float* y) {
  Launch(stream, 1, count)(twice, x, y);
}

float read_by_host(const float* x) { return *x; }
void write_by_host(float* x, float value) { *x = value; }

}  // namespace troupe::testing

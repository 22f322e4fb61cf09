#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ops/cpu/onednn.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/scratch.h"

namespace troupe::cpu {

// oneDNN divides some sums by the number of threads (weight gradients, products with a long inner
// dimension), and chooses an order of summation by it. So its primitives run on one thread here: a
// kernel is divided into pieces by its shape alone, and the stream's threads share the pieces.
// Hence the same bits for any number of threads.

/// Rounds a size up, so that what follows in the same scratch memory is aligned.
constexpr std::size_t aligned_bytes(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

/// Calls body(piece, memory) for each of `count` pieces, on the stream's threads. `memory` is
/// `bytes` of scratch memory, 64-byte aligned, which no other piece uses at that time. The body
/// returns the status of its primitives; throws Error{internal} if one failed.
template <class Body>
void run_pieces(const Stream& stream, std::size_t count, std::size_t bytes, const Body& body) {
  bytes = aligned_bytes(bytes);
  const std::size_t lanes = std::min(count, static_cast<std::size_t>(std::max(1, stream.threads)));
  const Scratch scratch(lanes * bytes);
  std::atomic<std::size_t> next_lane{0};
  std::atomic<dnnl_status_t> failure{dnnl_success};
  parallel(stream, static_cast<std::int64_t>(count), 1, [&](std::int64_t begin, std::int64_t end) {
    const std::size_t lane = next_lane++;
    std::byte* memory = static_cast<std::byte*>(scratch.data()) + lane * bytes;
    for (std::int64_t piece = begin; piece < end; ++piece)
      if (const dnnl_status_t status = body(static_cast<std::size_t>(piece), memory);
          status != dnnl_success)
        failure = status;
  });
  check_status(failure);
}

/// The largest number of equal groups of `items`, at most `most`, each of a multiple of `unit`
/// items and at least `least`; 1 if there is none.
std::int64_t equal_groups(std::int64_t items, std::int64_t unit, std::int64_t least,
                          std::int64_t most);

/// Partial sums, one behind the other.
struct Partials {
  const float* first = nullptr;
  std::int64_t stride = 0, count = 0;
};

/// The first `count` elements of each, added up in the order of the partial sums.
void add_up(const Stream& stream, const Partials& partials, std::int64_t count, float* to);

}  // namespace troupe::cpu

#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

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
/// `bytes` of scratch memory, 64-byte aligned, which no other piece uses at that time. Each thread
/// has a range of pieces, which another one completes if it is done before, so a thread that the
/// system interrupts does not delay all.
template <class Body>
void run_pieces(const Stream& stream, std::size_t count, std::size_t bytes, const Body& body) {
  struct Range {
    alignas(64) std::atomic<std::size_t> next{0};
    std::size_t end = 0;
  };
  bytes = aligned_bytes(bytes);
  const std::size_t lanes = std::min(count, static_cast<std::size_t>(std::max(1, stream.threads)));
  const Scratch scratch(lanes * bytes);
  std::vector<Range> ranges(lanes);
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    ranges[lane].next = count * lane / lanes;
    ranges[lane].end = count * (lane + 1) / lanes;
  }
  const auto run_lane = [&](std::size_t lane) {
    std::byte* const memory = static_cast<std::byte*>(scratch.data()) + lane * bytes;
    for (std::size_t i = 0; i < lanes; ++i) {
      Range& range = ranges[(lane + i) % lanes];
      for (std::size_t piece = range.next++; piece < range.end; piece = range.next++)
        body(piece, memory);
    }
  };
  parallel(stream, static_cast<std::int64_t>(lanes), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t lane = begin; lane < end; ++lane) run_lane(static_cast<std::size_t>(lane));
  });
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

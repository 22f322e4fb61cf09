#pragma once
// Kernels that go through the elements of tensors channel by channel.

#include <cstdint>

namespace troupe::cuda {

/// A tensor as [samples, count, inner] in memory, of which the middle axis are the channels.
/// Channels that are innermost, those of nhwc and of [N, C], have inner 1.
struct Channels {
  std::int64_t samples, count, inner;
  std::int64_t plane;  ///< H * W: element (n, c, p) is number (n * count + c) * plane + p

  std::int64_t elements() const { return samples * count * inner; }
};

}  // namespace troupe::cuda

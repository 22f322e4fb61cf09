#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cuda_on_cpu {

/// What comes before a point of the program (C. Fidge, 1988; F. Mattern, 1989): for each stream the
/// number of its operations. Stream 0 stands for the threads of the host, taken as one: messages
/// between them, which nobody sees here, put them in order.
class VectorClock {
 public:
  void join(const VectorClock& other) {
    counts_.resize(std::max(counts_.size(), other.counts_.size()));
    for (std::size_t i = 0; i < other.counts_.size(); ++i)
      counts_[i] = std::max(counts_[i], other.counts_[i]);
  }
  bool covers(const VectorClock& other) const {
    for (std::size_t i = 0; i < other.counts_.size(); ++i)
      if (other.counts_[i] > of(i)) return false;
    return true;
  }
  /// One more operation of the stream: its number, from 1.
  std::uint32_t tick(std::size_t stream) {
    counts_.resize(std::max(counts_.size(), stream + 1));
    return ++counts_[stream];
  }
  std::uint32_t of(std::size_t stream) const {
    return stream < counts_.size() ? counts_[stream] : 0;
  }
  bool covers(std::size_t stream, std::uint32_t operation) const { return operation <= of(stream); }

 private:
  std::vector<std::uint32_t> counts_;
};

inline constexpr std::uint16_t host_stream = 0;

/// What a stream, or the host, does at once.
struct Operation {
  std::uint16_t stream = host_stream;
  std::uint32_t number = 0;  ///< among those of the stream, from 1
  VectorClock before;        ///< covers the operation too
  const char* name = "the host";
};

}  // namespace cuda_on_cpu

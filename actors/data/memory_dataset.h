#pragma once
#include <future>
#include <string>
#include <string_view>

#include "actors/data/dataset.h"
#include "runtime/error.h"

namespace troupe {

/// The error for memory that the samples of a data set lack. Its remedy is that of samples, not of
/// the batches and models that usually take the memory.
Error lacks_memory(std::string_view dataset, const std::string& message);

/// A data set in memory. Targets are available from the beginning. Samples may become available
/// later, from a separate thread or at the first request. The destructor waits for such a thread.
class MemoryDataset final : public SampleReader {
 public:
  struct Part {
    Tensor targets;                      ///< [count, …]
    std::shared_future<Tensor> samples;  ///< [count, …]
  };
  MemoryDataset(std::string_view name, SampleSpec spec, Part train, Part test)
      : name_(name), spec_(spec), train_(std::move(train)), test_(std::move(test)) {}

  std::string_view name() const override { return name_; }
  SampleSpec samples() const override { return spec_; }
  std::int64_t count(Split split) const override { return part(split).targets.dim(0); }
  void read(Split split, std::int64_t index, Tensor sample, Tensor target) const override;
  /// Throws what preparing the samples threw, every time.
  std::optional<StoredSamples> stored(Split split) const override;

 private:
  const Part& part(Split split) const { return split == Split::train ? train_ : test_; }

  std::string name_;
  SampleSpec spec_;
  Part train_, test_;
};

}  // namespace troupe

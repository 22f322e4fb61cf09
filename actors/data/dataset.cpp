#include "actors/data/dataset.h"

#include <fmt/format.h>

#include <algorithm>

#include "actors/data/dataset_content.h"
#include "runtime/error.h"

namespace troupe {

const DatasetOptions& Dataset::options() const { return content_->options; }
const std::string& Dataset::name() const { return content_->options.name; }
std::int64_t Dataset::classes() const { return content_->classes; }
const Shape& Dataset::sample_shape() const { return content_->sample_shape; }
std::int64_t Dataset::count(Split split) const { return content_->part(split).labels.dim(0); }
Tensor Dataset::labels(Split split) const { return content_->part(split).labels; }

Tensor Dataset::images(Split split) const {
  // A copy of the handle: one shared_future may not be used by two threads, its copies may.
  const std::shared_future<Tensor> images = content_->part(split).images;
  return images.get();
}

std::optional<std::int64_t> count_training_samples(const DatasetOptions& options) {
  std::int64_t count = options.count;
  if (options.name != "synthetic") {
    try {
      count = detail::count_idx_samples(options);
    } catch (const Error&) {  // whoever opens it says what is wrong
      return std::nullopt;
    }
  }
  return options.limit > 0 ? std::min(count, options.limit) : count;
}

Dataset open_dataset(const DatasetOptions& options) {
  if (options.limit < 0 || options.test_limit < 0)
    throw Error(
        ErrorCode::bad_options,
        fmt::format("data.limit is {}, data.test_limit {}", options.limit, options.test_limit),
        "a number of samples, or 0 for all");
  if (options.name == "fashion_mnist") return detail::open_idx_folder(options);
  if (options.name == "synthetic") return detail::make_synthetic(options);
  throw Error(ErrorCode::bad_options, fmt::format("data.name is '{}'", options.name),
              "known are fashion_mnist and synthetic");
}

}  // namespace troupe

#include "actors/data/batch_maker.h"

#include <fmt/format.h>

#include "runtime/error.h"

namespace troupe {

BatchMaker::BatchMaker(Dataset dataset, Split split, SampleTransform transform)
    : dataset_(std::move(dataset)), split_(split), transform_(std::move(transform)) {
  if (transform_.sample_shape() != dataset_.sample_shape())
    throw Error(ErrorCode::bad_shape, fmt::format("samples of {} in a transform for {}",
                                                  to_string(dataset_.sample_shape()),
                                                  to_string(transform_.sample_shape())));
}

template <class T>
void BatchMaker::fill(const MicroBatchSamples& plan, const Tensor& source,
                      const Tensor& images) const {
  const std::int64_t size = transform_.sample_shape().element_count();
  const std::uint8_t* pixels = source.data<std::uint8_t>();
  T* out = images.data<T>();
  for (std::uint32_t sample : plan.samples) {
    transform_.apply(pixels + sample * size, plan.epoch, sample, out);
    out += size;
  }
}

Batch BatchMaker::make(const MicroBatchSamples& plan) const {
  const std::int64_t count = dataset_.count(split_);
  for (std::uint32_t sample : plan.samples)
    if (sample >= count)
      throw Error(ErrorCode::internal, fmt::format("sample {} of {}", sample, count));
  const auto n = static_cast<std::int64_t>(plan.samples.size());
  const Shape& shape = transform_.sample_shape();
  const Tensor source = dataset_.images(split_);
  Tensor images =
      Tensor::empty(Shape{n, shape[0], shape[1], shape[2]}, transform_.dtype(), Device::cpu());
  if (transform_.dtype() == DType::f64)
    fill<double>(plan, source, images);
  else
    fill<float>(plan, source, images);

  Tensor labels = Tensor::empty(Shape{n}, DType::i64, Device::cpu());
  const std::int64_t* from = dataset_.labels(split_).data<std::int64_t>();
  auto* to = labels.data<std::int64_t>();
  for (std::uint32_t sample : plan.samples) *to++ = from[sample];
  return {std::move(images), std::move(labels)};
}

}  // namespace troupe

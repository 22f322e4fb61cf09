#include "actors/data/resident_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ops/on_device.h"
#include "runtime/error.h"
#include "runtime/tensor/out_of_memory.h"

namespace troupe {
namespace {

[[noreturn]] void refuse(const std::string& reason, const std::string& remedy) {
  throw Error(ErrorCode::bad_options, "`resident` is true, but " + reason, remedy);
}

Tensor copied(const Stream& stream, const Tensor& images) {
  try {
    return on_device(stream, images);
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(fmt::format("copying the images of the data set: {}", error.message()),
                      "set `resident` to false, or " + error.remedy());
  }
}

}  // namespace

void check_resident(const TransformOptions& transform, const MixOptions& mix,
                    const SampleSpec& samples, std::string_view dataset) {
  if (samples.dtype != DType::u8 || samples.shape.rank() != 3)
    refuse(fmt::format("the samples of {} are {} of the shape {}", dataset, name_of(samples.dtype),
                       to_string(samples.shape)),
           "set `resident` to false: only u8 images, [channels, height, width], can lie on "
           "the GPU");
  if (!std::ranges::all_of(transform.augment, only_moves_pixels))
    refuse("`augment` has more than flip, vertical_flip and crop",
           "set `resident` to false, or leave the others out: the GPU does not compute them");
  for (const auto& [name, alpha] :
       {std::pair("mixup_alpha", mix.mixup_alpha), std::pair("cutmix_alpha", mix.cutmix_alpha)})
    if (alpha > 0)
      refuse(fmt::format("`{}` is {}: the GPU does not mix images", name, alpha),
             fmt::format("set `resident` to false, or `{}` to 0", name));
  if (transform.own)
    refuse("the program has a transform of its own, which reads the CPU's memory",
           "set `resident` to false, or remove the transform");
}

void check_resident(const TransformOptions& transform, const MixOptions& mix,
                    const Dataset& dataset) {
  check_resident(transform, mix, dataset.samples(), dataset.name());
  for (const Split split : {Split::train, Split::test})
    if (dataset.count(split) > 0 && !dataset.stored(split))
      refuse(fmt::format("{} reads its {} images on demand, or holds some out", dataset.name(),
                         split == Split::train ? "training" : "test"),
             "set `resident` to false: only images that are in memory, none of them held out for "
             "testing, are copied to the GPU");
}

// The lock is held while the host reads the images: other loaders need them too.
Tensor ResidentImages::on_device(const Stream& stream, Split split, const Tensor& images) {
  const std::lock_guard lock(mutex_);
  Copy& copy = copies_[static_cast<std::size_t>(split)];
  if (copy.copied && copy.copied->done() && !copy.copied->status()) copy = {};
  DeviceStream* given_to = device_stream(stream);
  if (!copy.images.defined()) {
    Copy made{.images = copied(stream, images)};
    if (given_to) made.copied = given_to->fence();
    copy = std::move(made);
  } else if (given_to) {
    given_to->wait(copy.copied, Awaits::results);
  }
  return copy.images;
}

}  // namespace troupe

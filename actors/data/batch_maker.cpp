#include "actors/data/batch_maker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ops/on_device.h"
#include "ops/reference/take_images.h"
#include "runtime/error.h"
#include "runtime/print.h"
#include "runtime/tensor/cast.h"
#include "runtime/tensor/finite.h"

namespace troupe {
namespace {

/// Copies the rows that are wanted, in their order.
void copy_rows(const MicroBatchSamples& wanted, const Tensor& from, Tensor& to) {
  const std::size_t bytes = to.bytes() / wanted.samples.size();
  std::byte* out = to.raw();
  for (const std::uint32_t sample : wanted.samples) {
    std::memcpy(out, from.raw() + sample * bytes, bytes);
    out += bytes;
  }
}

/// "training sample 5 of npy (from 0) has nan at number 3 of 4", of the first number that is not
/// finite; empty if all are.
std::string not_finite(const Dataset& dataset, Split split, const MicroBatchSamples& wanted,
                       const Tensor& samples) {
  const auto found = first_not_finite(samples);
  if (!found) return {};
  const std::int64_t size = dataset.samples().shape.element_count();
  return fmt::format("{} sample {} of {} (from 0) has {} at number {} of {}",
                     split == Split::train ? "training" : "test",
                     wanted.samples[static_cast<std::size_t>(*found / size)], dataset.name(),
                     not_finite_text(samples, *found), *found % size + 1, size);
}

/// Throws if a training sample has nan or an infinite number: no learning rate would help.
void check_finite(const Dataset& dataset, const MicroBatchSamples& wanted, const Tensor& samples,
                  bool is_transformed) {
  const std::string found = not_finite(dataset, Split::train, wanted, samples);
  if (found.empty()) return;
  throw Error(ErrorCode::bad_file,
              found + (is_transformed ? ", after the program's own transform" : ""),
              is_transformed ? "let the transform write a number"
                             : fmt::format("remove the sample, or give it a number that {} holds",
                                           name_of(samples.dtype())));
}

/// The rows of a tensor, each moved on by one; the last becomes the first.
Tensor rolled(const Tensor& rows) {
  Tensor result = Tensor::empty(rows.shape(), rows.dtype(), Device::cpu());
  const std::size_t bytes = rows.bytes(), row = bytes / static_cast<std::size_t>(rows.dim(0));
  std::memcpy(result.raw() + row, rows.raw(), bytes - row);
  std::memcpy(result.raw(), rows.raw() + bytes - row, row);
  return result;
}

/// Throws unless a data set's tensor has the shape and type that it declares.
void check_stored(const Dataset& dataset, std::string_view what, const Tensor& stored,
                  const Shape& shape, DType dtype) {
  if (stored.dtype() == dtype && stored.shape() == shape) return;
  throw Error(ErrorCode::bad_options,
              fmt::format("the stored {} of {} are {} {}, but its samples() and count() say {} {}",
                          what, dataset.name(), name_of(stored.dtype()), to_string(stored.shape()),
                          name_of(dtype), to_string(shape)),
              "return tensors of that shape and type from SampleReader::stored()");
}

}  // namespace

Shape batch_shape(std::int64_t count, const Shape& sample) {
  std::vector<std::int64_t> dims{count};
  dims.insert(dims.end(), sample.dims().begin(), sample.dims().end());
  return Shape(dims);
}

void check_fits(const std::vector<Augment>& augment, const MixOptions& mix,
                const SampleSpec& samples, std::string_view dataset) {
  check(mix, samples.shape);
  if (mix.any() && samples.dtype == DType::i64)
    throw Error(ErrorCode::bad_options,
                fmt::format("`{}` is set, but the samples of {} are indices of i64",
                            mix.mixup_alpha > 0 ? "mixup_alpha" : "cutmix_alpha", dataset),
                "indices cannot be mixed; set it to 0");
  if (samples.dtype != DType::u8 && !augment.empty())
    throw Error(ErrorCode::bad_options,
                fmt::format("`augment` is set, but {} has no u8 images", dataset),
                "remove `augment` (arrays need u8 of [channels, height, width])");
}

namespace {

bool come_as_bytes(const SampleSpec& samples, const TransformOptions& transform) {
  return transform.device != Device::cpu() && samples.dtype == DType::u8 &&
         samples.shape.rank() == 3;
}

}  // namespace

Tensor pixels_for(const TransformOptions& transform, const SampleSpec& samples) {
  return come_as_bytes(samples, transform) ? normalised_pixels(transform, samples.shape[0])
                                           : Tensor();
}

DType training_type(const SampleSpec& samples, const TransformOptions& transform,
                    const MixOptions& mix) {
  const bool changed = mix.any() || transform.own ||
                       std::ranges::count(transform.augment, Augment::random_erasing) > 0;
  return come_as_bytes(samples, transform) && !changed ? DType::u8
                                                       : batch_type(samples, transform.dtype);
}

BatchMaker::BatchMaker(Dataset dataset, Split split, TransformOptions transform, MixOptions mix)
    : dataset_(std::move(dataset)),
      split_(split),
      mix_(split == Split::train ? mix : MixOptions{}),
      own_(split == Split::train ? transform.own : OwnTransform{}),
      seed_(transform.seed),
      device_(transform.device) {
  const SampleSpec& spec = dataset_.samples();
  transform.own = own_;
  if (split == Split::test) transform.augment.clear();
  check_fits(transform.augment, mix, spec, dataset_.name());
  if (spec.dtype == DType::u8) transform_.emplace(transform, spec.shape);
  dtype_ = training_type(spec, transform, mix_);
}

// Writes row `row` of the batch's samples.
void BatchMaker::transform(const std::uint8_t* pixels, std::int64_t epoch, std::uint32_t sample,
                           Batch& batch, std::int64_t row) const {
  const std::int64_t at = row * dataset_.samples().shape.element_count();
  if (dtype_ == DType::u8)
    transform_->apply(pixels, epoch, sample, batch.samples.data<std::uint8_t>() + at);
  else if (dtype_ == DType::f64)
    transform_->apply(pixels, epoch, sample, batch.samples.data<double>() + at);
  else
    transform_->apply(pixels, epoch, sample, batch.samples.data<float>() + at);
}

void BatchMaker::take_stored(const MicroBatchSamples& wanted, const StoredSamples& stored,
                             Batch& batch) const {
  copy_rows(wanted, stored.targets, batch.targets);
  if (!transform_) return copy_rows(wanted, stored.samples, batch.samples);
  const std::int64_t size = dataset_.samples().shape.element_count();
  const std::uint8_t* pixels = stored.samples.data<std::uint8_t>();
  std::int64_t row = 0;
  for (const std::uint32_t sample : wanted.samples)
    transform(pixels + sample * size, wanted.epoch, sample, batch, row++);
}

void BatchMaker::read_each(const MicroBatchSamples& wanted, Batch& batch) const {
  Tensor pixels;
  if (transform_)
    pixels = Tensor::empty(batch_shape(1, dataset_.samples().shape), DType::u8, Device::cpu());
  std::int64_t row = 0;
  for (const std::uint32_t sample : wanted.samples) {
    const Tensor target = batch.targets.narrow(row, 1);
    if (takes_part())
      dataset_.read_part(
          split_, sample,
          [&](ImageSize image) { return transform_->part(image, wanted.epoch, sample); }, pixels,
          target);
    else
      dataset_.read(split_, sample, transform_ ? pixels : batch.samples.narrow(row, 1), target);
    if (transform_) transform(pixels.data<std::uint8_t>(), wanted.epoch, sample, batch, row);
    ++row;
  }
}

void BatchMaker::apply_own(const MicroBatchSamples& wanted, Batch& batch) const {
  std::int64_t row = 0;
  for (const std::uint32_t sample : wanted.samples)
    own_(batch.samples.narrow(row++, 1),
         {seed_, static_cast<std::uint32_t>(wanted.epoch), sample, operation_id("augment.own")});
}

void BatchMaker::check_indices(const MicroBatchSamples& wanted) const {
  const std::int64_t count = dataset_.count(split_);
  for (const std::uint32_t sample : wanted.samples)
    if (sample >= count)
      throw Error(ErrorCode::internal, fmt::format("sample {} of {}", sample, count));
}

Tensor BatchMaker::empty_targets(const MicroBatchSamples& wanted) const {
  const SampleSpec& spec = dataset_.samples();
  return Tensor::empty(batch_shape(std::ssize(wanted.samples), spec.target_shape),
                       spec.target_dtype, Device::cpu());
}

Batch BatchMaker::make(const MicroBatchSamples& wanted) const {
  check_indices(wanted);
  const SampleSpec& spec = dataset_.samples();
  const std::int64_t n = std::ssize(wanted.samples);
  const DType read_as = transform_ ? dtype_ : spec.dtype;
  Batch batch{empty_on_cpu(batch_shape(n, spec.shape), read_as, device_), empty_targets(wanted)};
  const auto stored = takes_part() ? std::nullopt : dataset_.stored(split_);
  if (!stored) {
    read_each(wanted, batch);
  } else {
    check_all_stored(*stored);
    take_stored(wanted, *stored, batch);
  }
  if (read_as != dtype_) batch.samples = cast(batch.samples, dtype_);
  if (own_) apply_own(wanted, batch);
  const bool has_numbers = !transform_ || own_;  // bytes become finite numbers
  if (has_numbers && split_ == Split::train)
    check_finite(dataset_, wanted, batch.samples, static_cast<bool>(own_));
  else if (has_numbers)
    warn_if_not_finite(wanted, batch.samples);
  if (mix_.any()) {
    batch.share = mix(mix_, seed_, wanted.header.key, batch.samples);
    batch.partners = rolled(batch.targets);
  }
  return batch;
}

// An error would end a run that trains well.
void BatchMaker::warn_if_not_finite(const MicroBatchSamples& wanted, const Tensor& samples) const {
  const std::string found = not_finite(dataset_, split_, wanted, samples);
  if (!found.empty() && !has_warned_->test_and_set())
    print_warning("{}: the test loss will not be finite", found);
}

Batch BatchMaker::make_windows(const MicroBatchSamples& wanted) const {
  check_indices(wanted);
  const auto stored = dataset_.stored(split_);
  if (!stored || !transform_)
    throw Error(ErrorCode::internal,
                fmt::format("{} does not store images in memory", dataset_.name()));
  check_all_stored(*stored);
  Batch batch{stored->samples, empty_targets(wanted)};
  copy_rows(wanted, stored->targets, batch.targets);
  batch.windows =
      empty_on_cpu({std::ssize(wanted.samples), reference::window_numbers}, DType::i64, device_);
  auto* numbers = batch.windows.data<std::int64_t>();
  for (const std::uint32_t sample : wanted.samples) {
    const PixelWindow window = transform_->window(wanted.epoch, sample);
    for (const std::int64_t number :
         {std::int64_t{sample}, window.top, window.down, window.left, window.right})
      *numbers++ = number;
  }
  return batch;
}

void BatchMaker::check_all_stored(const StoredSamples& stored) const {
  const SampleSpec& spec = dataset_.samples();
  const std::int64_t count = dataset_.count(split_);
  check_stored(dataset_, "samples", stored.samples, batch_shape(count, spec.shape), spec.dtype);
  check_stored(dataset_, "targets", stored.targets, batch_shape(count, spec.target_shape),
               spec.target_dtype);
}

}  // namespace troupe

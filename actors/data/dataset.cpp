#include "actors/data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "actors/data/memory_dataset.h"
#include "runtime/error.h"
#include "runtime/image/resize.h"
#include "runtime/tensor/out_of_memory.h"

namespace troupe {

std::size_t SampleReader::bytes_in_memory() const {
  std::size_t bytes = 0;
  for (const Split split : {Split::train, Split::test})
    if (const auto all = stored(split)) bytes += all->samples.bytes() + all->targets.bytes();
  return bytes;
}

void SampleReader::read_part(Split split, std::int64_t index, const PartOf& part, Tensor sample,
                             Tensor target) const {
  const Tensor whole = Tensor::empty(sample.shape(), sample.dtype(), Device::cpu());
  read(split, index, whole, std::move(target));
  const std::int64_t channels = sample.dim(1), height = sample.dim(2), width = sample.dim(3);
  const ImageBox box = part({width, height});
  const ResizeAxis columns(box.left, box.width, width, 0, width);
  const ResizeAxis rows(box.top, box.height, height, 0, height);
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    const std::int64_t plane = channel * height * width;
    resize({whole.data<std::uint8_t>() + plane, {width, height}, 1}, columns, rows,
           sample.data<std::uint8_t>() + plane);
  }
}

Dataset::Dataset(std::shared_ptr<const SampleReader> reader, const OptionFields& description)
    : reader_(std::move(reader)), samples_(reader_ ? reader_->samples() : SampleSpec{}) {
  for (const OptionField& field : description)  // the variables of the fields may end
    description_.push_back(constant_field(field.path, field.write()));
}

namespace {

/// The result of `read`, which brings samples of a data set into memory.
template <class Read>
auto with_memory_for(std::string_view dataset, Read read) {
  try {
    return read();
  } catch (const OutOfMemory& error) {
    throw lacks_memory(dataset, error.message());
  } catch (const std::bad_alloc&) {
    throw lacks_memory(dataset, "out of memory");
  }
}

}  // namespace

std::int64_t DatasetOptions::taken(Split split, std::int64_t count) const {
  const std::int64_t most = split == Split::train ? limit : test_limit;
  return most == 0 ? count : std::min(count, most);
}

void DatasetSource::check(const DatasetOptions& options) const {
  if (options.limit < 0 || options.test_limit < 0)
    throw Error(
        ErrorCode::bad_options,
        fmt::format(
            "`Dataset::limit` is {} and `Dataset::test_limit` is {}; neither may be negative",
            options.limit, options.test_limit),
        "give a number of samples, or 0 for all");
  check_options();
}

std::shared_ptr<const SampleReader> DatasetSource::checked(
    std::shared_ptr<const SampleReader> opened, std::string_view name) {
  if (!opened)
    throw Error(ErrorCode::internal, fmt::format("open() of the data set {} returned null", name),
                "return a reader, or throw an Error with the reason");
  return opened;
}

DatasetSummary DatasetSource::describe(const DatasetOptions& options) const {
  check(options);
  return with_memory_for(name(), [&] { return describe_(*this, options); });
}

Dataset open_dataset(DatasetSource source, const DatasetOptions& options,
                     std::shared_ptr<const SampleReader> opened) {
  source.check(options);
  OptionFields fields = source.options();
  DatasetOptions kept = options;
  fields.push_back(field("seed", kept.seed, ""));
  fields.push_back(field("data.limit", kept.limit, ""));
  fields.push_back(field("data.test_limit", kept.test_limit, ""));
  if (!opened)
    opened = with_memory_for(source.name(), [&] { return source.open_(source, options); });
  return {std::move(opened), fields};
}

}  // namespace troupe

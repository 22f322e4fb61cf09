#include "actors/data/array_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>

#include "actors/data/hold_out.h"
#include "runtime/error.h"

namespace troupe {
namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& what,
                         const std::string& remedy) {
  throw Error(ErrorCode::bad_file, fmt::format("{} {}", name, what), remedy);
}

/// The shape of one sample; [height, width] has one channel.
Shape sample_shape(const Shape& all) {
  return all.rank() == 3 ? Shape{1, all[1], all[2]} : Shape(all.dims().subspan(1));
}

/// Whether a type holds indices: integers that fit into i64. Arrays of u8 hold pixels.
bool is_whole(DType dtype) {
  return dtype == DType::i8 || dtype == DType::i16 || dtype == DType::i32 || dtype == DType::i64 ||
         dtype == DType::u16 || dtype == DType::u32;
}

/// The type in which samples are read: whole numbers of any size as i64.
DType sample_type(DType stored) { return is_whole(stored) ? DType::i64 : stored; }

/// Copies whole numbers into a tensor of i64 of the same shape.
void widen(const Tensor& from, Tensor& to) {
  visit_element(from.dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_integral_v<T>)
      std::ranges::copy(from.elements<T>(), to.elements<std::int64_t>().begin());
  });
}

template <class T>
Tensor classes_from(const Tensor& targets, const std::string& name) {
  Tensor classes = Tensor::empty(Shape{targets.dim(0)}, DType::i64, Device::cpu());
  const auto from = targets.elements<T>();
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (std::cmp_less(from[i], 0) ||
        std::cmp_greater_equal(from[i], std::numeric_limits<std::int64_t>::max()))
      refuse(name, fmt::format("has the class {} at {}", from[i], i), "number classes from 0");
  }
  widen(targets, classes);
  return classes;
}

Tensor classes_of(const Tensor& targets, const std::string& name) {
  return visit_element(targets.dtype(), [&]<class T>(std::type_identity<T>) -> Tensor {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      return classes_from<T>(targets, name);
    throw Error(ErrorCode::internal, fmt::format("{} was not checked", name));
  });
}

void check_samples(const TensorInfo& samples) {
  const Shape& shape = samples.shape;
  if (shape.rank() < 2 || shape.rank() > 4)
    refuse(samples.name, fmt::format("has the shape {}", to_string(shape)),
           "give [samples, features], [samples, height, width] or [samples, channels, height, "
           "width]");
  if (samples.dtype != DType::u8 && !is_number(samples.dtype) && !is_whole(samples.dtype))
    refuse(samples.name, fmt::format("has elements of {}", name_of(samples.dtype)),
           "give pixels of u8, numbers of f32 or f64, or indices such as tokens of i64");
  if (shape.element_count() == 0)
    refuse(samples.name, fmt::format("is empty: its shape is {}", to_string(shape)),
           "give at least one sample");
}

void check_targets(const TensorInfo& targets, const TensorInfo& samples) {
  const Shape& shape = targets.shape;
  if (shape.rank() < 1 || shape[0] != samples.shape[0])
    refuse(targets.name,
           fmt::format("has the shape {} for {} samples in {}", to_string(shape), samples.shape[0],
                       samples.name),
           "give one target for each sample");
  if (!is_number(targets.dtype) && (is_floating(targets.dtype) || targets.dtype == DType::boolean))
    refuse(targets.name, fmt::format("has elements of {}", name_of(targets.dtype)),
           "give integers for classes, or numbers of f32 or f64");
  if (is_number(targets.dtype)) {
    if (shape.rank() > 2 || shape.element_count() == 0)
      refuse(targets.name, fmt::format("has the shape {}", to_string(shape)),
             "give [samples] or [samples, outputs]");
    return;
  }
  if (shape.rank() != 1 && !(shape.rank() == 2 && shape[1] == 1))
    refuse(targets.name, fmt::format("has integers of the shape {}", to_string(shape)),
           "give one class for each sample, or numbers of f32 or f64");
}

/// Brings a checked part into the form of SampleSpec. The samples are not copied.
ArrayPart prepared(ArrayPart part) {
  const Shape shape = part.shape();
  if (shape.rank() == 3 && !part.rows)
    part.samples = part.samples.reshape(Shape{shape[0], 1, shape[1], shape[2]});
  if (!is_number(part.targets.dtype())) part.targets = classes_of(part.targets, part.targets_name);
  return part;
}

SampleSpec spec_of(const ArrayPart& part) {
  return {.shape = sample_shape(part.shape()),
          .dtype = sample_type(part.dtype()),
          .classes = 0,
          .target_shape = Shape(part.targets.shape().dims().subspan(1)),
          .target_dtype = part.targets.dtype()};
}

void count_classes(const ArrayPart& part, SampleSpec& spec) {
  if (part.targets.dtype() == DType::i64)
    spec.classes = std::max(spec.classes,
                            1 + *std::ranges::max_element(part.targets.elements<std::int64_t>()));
}

/// "f32 of [2, 3]"
std::string samples_text(const TensorInfo& samples) {
  return fmt::format("{} of {}", name_of(samples.dtype), to_string(sample_shape(samples.shape)));
}

/// The same of one target. Classes have one form, whatever their type.
std::string targets_text(const TensorInfo& targets) {
  if (!is_number(targets.dtype))
    return fmt::format("{} of {}", name_of(DType::i64), to_string(Shape{}));
  const Shape inner(targets.shape.dims().subspan(1));
  return fmt::format("{} of {}", name_of(targets.dtype), to_string(inner));
}

void check_same(const ArrayPartHeader& train, const ArrayPartHeader& test) {
  const std::string samples = samples_text(test.samples), targets = targets_text(test.targets);
  if (samples != samples_text(train.samples))
    refuse(test.samples.name,
           fmt::format("has samples {}, but {} has {}", samples, train.samples.name,
                       samples_text(train.samples)),
           "take both from the same data set");
  if (targets != targets_text(train.targets))
    refuse(test.targets.name,
           fmt::format("has targets {}, but {} has {}", targets, train.targets.name,
                       targets_text(train.targets)),
           "take both from the same data set");
}

ArrayPartHeader header_of(const ArrayPart& part) {
  return {{part.samples_name, part.dtype(), part.shape()},
          {part.targets_name, part.targets.dtype(), part.targets.shape()}};
}

/// A split: rows of arrays. Without `rows` they are the first `count`.
struct Rows {
  ArrayPart part;
  std::int64_t count = 0;
  std::vector<std::uint32_t> rows = {};
};

class ArrayDataset final : public SampleReader {
 public:
  ArrayDataset(std::string_view name, SampleSpec spec, Rows train, Rows test, TargetNames names)
      : name_(name),
        spec_(spec),
        train_(std::move(train)),
        test_(std::move(test)),
        target_names_(std::move(names)) {}

  std::string_view name() const override { return name_; }
  SampleSpec samples() const override { return spec_; }
  TargetNames target_names() const override { return target_names_; }
  std::int64_t count(Split split) const override { return of(split).count; }
  void read(Split split, std::int64_t index, Tensor sample, Tensor target) const override {
    const Rows& all = of(split);
    const std::int64_t row = all.rows.empty() ? index : all.rows[static_cast<std::size_t>(index)];
    if (all.part.dtype() == spec_.dtype) {
      read_row(all.part, row, sample);
    } else {
      Tensor stored = Tensor::empty(sample.shape(), all.part.dtype(), Device::cpu());
      read_row(all.part, row, stored);
      widen(stored, sample);
    }
    copy(all.part.targets.narrow(row, 1), target);
  }
  std::optional<StoredSamples> stored(Split split) const override {
    const Rows& all = of(split);
    if (!all.rows.empty() || all.part.rows || all.count == 0) return std::nullopt;
    if (all.part.dtype() != spec_.dtype) return std::nullopt;
    return StoredSamples{all.part.samples.narrow(0, all.count),
                         all.part.targets.narrow(0, all.count)};
  }
  std::size_t bytes_in_memory() const override {
    std::size_t bytes = 0;
    std::set<const void*> counted;  // both splits may hold rows of the same arrays
    for (const Rows* split : {&train_, &test_}) {
      for (const Tensor& array : {split->part.samples, split->part.targets})
        if (array.defined() && counted.insert(array.raw()).second) bytes += array.bytes();
      const RowReader* rows = split->part.rows.get();
      if (rows && counted.insert(rows).second) bytes += rows->bytes_in_memory();
    }
    return bytes;
  }
  std::size_t bytes_per_thread() const override {
    std::size_t bytes = 0;
    for (const Rows* split : {&train_, &test_})
      if (split->part.rows) bytes = std::max(bytes, split->part.rows->bytes_per_thread());
    return bytes;
  }

 private:
  static void read_row(const ArrayPart& part, std::int64_t row, Tensor& to) {
    if (part.rows)
      part.rows->read_row(row, {to.raw(), to.bytes()});
    else
      copy(part.samples.narrow(row, 1), to);
  }
  static void copy(const Tensor& from, Tensor& to) {
    std::memcpy(to.raw(), from.raw(), from.bytes());
  }
  const Rows& of(Split split) const { return split == Split::train ? train_ : test_; }

  std::string name_;
  SampleSpec spec_;
  Rows train_, test_;
  TargetNames target_names_;
};

/// Divides the rows of one part.
std::pair<Rows, Rows> held_out(const ArrayPart& part, double fraction,
                               const DatasetOptions& options) {
  const std::int64_t samples = part.shape()[0];
  if (fraction == 0) return {{part, options.taken(Split::train, samples)}, {part, 0}};
  HeldOut divided = hold_out(fraction, samples, options.seed, part.samples_name);
  const auto rows = [&](std::vector<std::uint32_t> of_split, Split split) {
    return Rows{part, options.taken(split, std::ssize(of_split)), std::move(of_split)};
  };
  return {rows(std::move(divided.train), Split::train), rows(std::move(divided.test), Split::test)};
}

}  // namespace

void check_arrays(const ArrayPartHeader& train, const std::optional<ArrayPartHeader>& test) {
  for (const ArrayPartHeader* part : {&train, test ? &*test : nullptr}) {
    if (part == nullptr) continue;
    check_samples(part->samples);
    check_targets(part->targets, part->samples);
  }
  if (test) check_same(train, *test);
}

std::shared_ptr<const SampleReader> array_dataset(std::string_view name, ArrayPart train,
                                                  std::optional<ArrayPart> test,
                                                  double test_fraction,
                                                  const DatasetOptions& options,
                                                  TargetNames names) {
  check_arrays(header_of(train), test ? std::optional(header_of(*test)) : std::nullopt);
  train = prepared(std::move(train));
  SampleSpec spec = spec_of(train);
  count_classes(train, spec);
  if (!test) {
    auto [train_rows, test_rows] = held_out(train, test_fraction, options);
    return std::make_shared<ArrayDataset>(name, spec, std::move(train_rows), std::move(test_rows),
                                          std::move(names));
  }
  check_no_test_samples(test_fraction, test->samples_name);
  *test = prepared(std::move(*test));
  count_classes(*test, spec);
  const std::int64_t count = options.taken(Split::train, train.shape()[0]);
  const std::int64_t test_count = options.taken(Split::test, test->shape()[0]);
  return std::make_shared<ArrayDataset>(name, spec, Rows{std::move(train), count},
                                        Rows{std::move(*test), test_count}, std::move(names));
}

}  // namespace troupe

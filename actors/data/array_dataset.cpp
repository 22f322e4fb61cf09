#include "actors/data/array_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "actors/data/sampler.h"
#include "runtime/error.h"

namespace troupe {
namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& what,
                         const std::string& remedy) {
  throw Error(ErrorCode::bad_file, fmt::format("{} {}", name, what), remedy);
}

/// The shape of one target.
Shape inner(const Tensor& all) { return Shape(all.shape().dims().subspan(1)); }

/// The shape of one sample; [height, width] has one channel.
Shape sample_shape(const ArrayPart& part) {
  const Shape all = part.shape();
  return all.rank() == 3 ? Shape{1, all[1], all[2]} : Shape(all.dims().subspan(1));
}

template <class T>
Tensor classes_from(const Tensor& targets, const std::string& name) {
  Tensor classes = Tensor::empty(Shape{targets.dim(0)}, DType::i64, Device::cpu());
  const auto from = targets.elements<T>();
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (std::cmp_less(from[i], 0) ||
        std::cmp_greater_equal(from[i], std::numeric_limits<std::int64_t>::max()))
      refuse(name, fmt::format("has the class {} at {}", from[i], i), "number classes from 0");
    classes.data<std::int64_t>()[i] = static_cast<std::int64_t>(from[i]);
  }
  return classes;
}

Tensor classes_of(const Tensor& targets, const std::string& name) {
  switch (targets.dtype()) {
    case DType::u8:
      return classes_from<std::uint8_t>(targets, name);
    case DType::u16:
      return classes_from<std::uint16_t>(targets, name);
    case DType::u32:
      return classes_from<std::uint32_t>(targets, name);
    case DType::u64:
      return classes_from<std::uint64_t>(targets, name);
    case DType::i8:
      return classes_from<std::int8_t>(targets, name);
    case DType::i16:
      return classes_from<std::int16_t>(targets, name);
    case DType::i32:
      return classes_from<std::int32_t>(targets, name);
    case DType::i64:
      return classes_from<std::int64_t>(targets, name);
    default:
      refuse(name, fmt::format("has elements of {}", name_of(targets.dtype())),
             "give integers for classes, or numbers of f32 or f64");
  }
}

/// Checks a part and brings it into the form of SampleSpec. The samples are not copied.
ArrayPart prepared(ArrayPart part) {
  Tensor& targets = part.targets;
  const Shape shape = part.shape();
  if (shape.rank() < 2 || shape.rank() > 4)
    refuse(part.samples_name, fmt::format("has the shape {}", to_string(shape)),
           "give [samples, features], [samples, height, width] or [samples, channels, height, "
           "width]");
  if (part.dtype() != DType::u8 && !is_number(part.dtype()))
    refuse(part.samples_name, fmt::format("has elements of {}", name_of(part.dtype())),
           "give pixels of u8, or numbers of f32 or f64");
  if (shape.element_count() == 0)
    refuse(part.samples_name, fmt::format("is empty: its shape is {}", to_string(shape)),
           "give at least one sample");
  if (targets.rank() < 1 || targets.dim(0) != shape[0])
    refuse(part.targets_name,
           fmt::format("has the shape {} for {} samples in {}", to_string(targets.shape()),
                       shape[0], part.samples_name),
           "give one target for each sample");
  if (shape.rank() == 3 && !part.rows)
    part.samples = part.samples.reshape(Shape{shape[0], 1, shape[1], shape[2]});
  const bool one = targets.rank() == 2 && targets.dim(1) == 1;
  if (!is_number(targets.dtype())) {
    if (targets.rank() != 1 && !one)
      refuse(part.targets_name,
             fmt::format("has integers of the shape {}", to_string(targets.shape())),
             "give one class for each sample, or numbers of f32 or f64");
    targets = classes_of(targets, part.targets_name);
  } else if (targets.rank() > 2 || targets.element_count() == 0) {
    refuse(part.targets_name, fmt::format("has the shape {}", to_string(targets.shape())),
           "give [samples] or [samples, outputs]");
  }
  return part;
}

SampleSpec spec_of(const ArrayPart& part) {
  return {.shape = sample_shape(part),
          .dtype = part.dtype(),
          .classes = 0,
          .target_shape = inner(part.targets),
          .target_dtype = part.targets.dtype()};
}

void count_classes(const ArrayPart& part, SampleSpec& spec) {
  if (part.targets.dtype() == DType::i64)
    spec.classes = std::max(spec.classes,
                            1 + *std::ranges::max_element(part.targets.elements<std::int64_t>()));
}

void check_same(const ArrayPart& train, const ArrayPart& test) {
  const auto text = [](DType dtype, const Shape& shape) {
    return fmt::format("{} of {}", name_of(dtype), to_string(shape));
  };
  const auto samples = [&](const ArrayPart& part) {
    return text(part.dtype(), sample_shape(part));
  };
  const auto targets = [&](const ArrayPart& part) {
    return text(part.targets.dtype(), inner(part.targets));
  };
  if (samples(train) != samples(test))
    refuse(test.samples_name,
           fmt::format("has samples {}, but {} has {}", samples(test), train.samples_name,
                       samples(train)),
           "take both from the same data set");
  if (targets(train) != targets(test))
    refuse(test.targets_name,
           fmt::format("has targets {}, but {} has {}", targets(test), train.targets_name,
                       targets(train)),
           "take both from the same data set");
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
    if (all.part.rows)
      all.part.rows->read_row(row, {sample.raw(), sample.bytes()});
    else
      copy(all.part.samples.narrow(row, 1), sample);
    copy(all.part.targets.narrow(row, 1), target);
  }
  std::optional<StoredSamples> stored(Split split) const override {
    const Rows& all = of(split);
    if (!all.rows.empty() || all.part.rows || all.count == 0) return std::nullopt;
    return StoredSamples{all.part.samples.narrow(0, all.count),
                         all.part.targets.narrow(0, all.count)};
  }

 private:
  static void copy(const Tensor& from, Tensor& to) {
    std::memcpy(to.raw(), from.raw(), from.bytes());
  }
  const Rows& of(Split split) const { return split == Split::train ? train_ : test_; }

  std::string name_;
  SampleSpec spec_;
  Rows train_, test_;
  TargetNames target_names_;
};

/// Divides the rows of one part; each split keeps their order.
std::pair<Rows, Rows> held_out(const ArrayPart& part, double fraction,
                               const DatasetOptions& options) {
  const std::int64_t samples = part.shape()[0];
  const auto test =
      static_cast<std::int64_t>(std::llround(fraction * static_cast<double>(samples)));
  if (fraction > 0 && (test == 0 || test == samples))
    throw Error(ErrorCode::bad_options,
                fmt::format("`Dataset::test_fraction` is {}, which holds out {} of {} samples",
                            fraction, test, samples),
                "give a fraction that leaves samples for training and for testing");
  if (test == 0) return {{part, options.taken(Split::train, samples)}, {part, 0}};
  if (samples > std::numeric_limits<std::uint32_t>::max())
    refuse(part.samples_name, fmt::format("has {} samples, too many to divide", samples),
           "store the test samples in a file of their own");
  // An order of its own: an epoch's number is never this.
  std::vector<std::uint32_t> order = epoch_order({.seed = options.seed, .samples = samples},
                                                 std::numeric_limits<std::uint32_t>::max());
  const auto split = [&](std::int64_t from, std::int64_t to, Split which) {
    Rows rows{part, 0, {order.begin() + from, order.begin() + to}};
    std::ranges::sort(rows.rows);
    rows.count = options.taken(which, to - from);
    return rows;
  };
  return {split(test, samples, Split::train), split(0, test, Split::test)};
}

}  // namespace

std::shared_ptr<const SampleReader> array_dataset(std::string_view name, ArrayPart train,
                                                  std::optional<ArrayPart> test,
                                                  double test_fraction,
                                                  const DatasetOptions& options,
                                                  TargetNames names) {
  train = prepared(std::move(train));
  SampleSpec spec = spec_of(train);
  count_classes(train, spec);
  if (!test) {
    auto [train_rows, test_rows] = held_out(train, test_fraction, options);
    return std::make_shared<ArrayDataset>(name, spec, std::move(train_rows), std::move(test_rows),
                                          std::move(names));
  }
  if (test_fraction > 0)
    throw Error(ErrorCode::bad_options,
                fmt::format("`Dataset::test_fraction` is {}, but there are test samples in {}",
                            test_fraction, test->samples_name),
                "set `Dataset::test_fraction` to 0, or remove the test samples");
  *test = prepared(std::move(*test));
  check_same(train, *test);
  count_classes(*test, spec);
  const std::int64_t count = options.taken(Split::train, train.shape()[0]);
  const std::int64_t test_count = options.taken(Split::test, test->shape()[0]);
  return std::make_shared<ArrayDataset>(name, spec, Rows{std::move(train), count},
                                        Rows{std::move(*test), test_count}, std::move(names));
}

}  // namespace troupe

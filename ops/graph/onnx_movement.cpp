// Other shapes and orders of tensors that depend on data.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "ops/graph/onnx_import.h"
#include "ops/graph/onnx_shape_rules.h"
#include "runtime/text.h"

namespace troupe::graph::onnx {
namespace {

constexpr std::int64_t most_parts = 4096;  // of one tensor

int axis_attribute(const Call& call, ValueId x, std::int64_t otherwise) {
  return axis_of(call, call.integer("axis", otherwise), static_cast<int>(call.shape(x).size()));
}

void give_reshaped(Call& call, ValueId x, Sizes shape) {
  call.give(call.add(Reshape{std::move(shape)}, {x}));
}

void reshape(Call& call) {
  const ValueId x = call.value(0);
  give_reshaped(call, x, reshaped(call, call.shape(x), call.needed_numbers(1)));
}

void flatten(Call& call) {
  const ValueId x = call.value(0);
  give_reshaped(call, x, flattened(call, call.shape(x)));
}

void squeeze(Call& call) {
  const ValueId x = call.value(0);
  const Numbers* axes = call.has_input(1) ? &call.needed_numbers(1) : nullptr;
  give_reshaped(call, x, squeezed(call, call.shape(x), axes));
}

void unsqueeze(Call& call) {
  const ValueId x = call.value(0);
  give_reshaped(call, x, unsqueezed(call, call.shape(x), call.needed_numbers(1)));
}

void expand(Call& call) {
  const ValueId x = call.value(0);
  call.give(call.add(Expand{expanded(call, call.shape(x), call.needed_numbers(1))}, {x}));
}

/// Of a shape with the number of samples.
void constant_of_shape(Call& call) {
  const Numbers& sizes = call.needed_numbers(0);
  const Numbers scalar{.dtype = DType::i64, .shape = Shape{0}};
  const std::vector<const Numbers*> inputs{&scalar};
  const ValueId one = call.constant(*evaluate(call, inputs, call.budget()));
  call.give(call.add(Expand{expanded(call, call.shape(one), sizes)}, {one}));
}

void transpose(Call& call) {
  const ValueId x = call.value(0);
  call.give(call.add(Permute{permutation_of(call, static_cast<int>(call.shape(x).size()))}, {x}));
}

/// Elements [start, start + count) of an axis; the value itself if these are all.
ValueId sliced(Call& call, ValueId x, int axis, std::int64_t start, std::int64_t count) {
  const Size& size = call.shape(x)[static_cast<std::size_t>(axis)];
  if (start == 0 && fixed(count) == size) return x;
  if (!is_fixed(size)) call.refuse("it takes a part of the batch");
  return call.add(Slice{axis, start, count}, {x});
}

void slice(Call& call) {
  ValueId x = call.value(0);
  std::vector<const Numbers*> bounds;
  bounds.reserve(static_cast<std::size_t>(call.input_count()));
  for (int i = 0; i < call.input_count(); ++i)
    bounds.push_back(i > 0 && call.has_input(i) ? &call.needed_numbers(i) : nullptr);
  for (const Range& range : slices_of(call, call.shape(x), bounds)) {
    if (range.step != 1 && range.count > 1) call.refuse(fmt::format("its step is {}", range.step));
    x = sliced(call, x, range.axis, range.start, range.count);
  }
  call.give(x);
}

/// The parts of these sizes along an axis.
std::vector<ValueId> parts_of(Call& call, ValueId x, int axis,
                              const std::vector<std::int64_t>& counts) {
  std::vector<ValueId> parts;
  std::int64_t start = 0;
  for (const std::int64_t count : counts) {
    parts.push_back(sliced(call, x, axis, start, count));
    start += count;
  }
  if (fixed(start) != call.shape(x)[static_cast<std::size_t>(axis)])
    call.damaged(
        fmt::format("its parts are {} of {} along axis {}", start, to_string(call.shape(x)), axis));
  return parts;
}

/// Sizes of parts of `each` elements; the last one may be smaller.
std::vector<std::int64_t> equal_parts(const Call& call, ValueId x, int axis, std::int64_t each) {
  const Size& size = call.shape(x)[static_cast<std::size_t>(axis)];
  if (!is_fixed(size)) call.refuse("it divides the batch");
  if (each < 1 || (size.fixed - 1) / each >= most_parts)
    call.damaged(fmt::format("it divides {} into parts of {}", to_string(call.shape(x)), each));
  std::vector<std::int64_t> counts;
  for (std::int64_t left = size.fixed; left > 0; left -= each)
    counts.push_back(std::min(left, each));
  return counts;
}

void split(Call& call) {
  const ValueId x = call.value(0);
  const int axis = axis_attribute(call, x, 0);
  std::vector<std::int64_t> counts;
  if (call.has_input(1)) {
    counts = fixed_integers_of(call, call.needed_numbers(1));
  } else {
    const std::int64_t outputs = std::max(1, call.output_count());
    const Size& size = call.shape(x)[static_cast<std::size_t>(axis)];
    counts =
        equal_parts(call, x, axis, std::max<std::int64_t>(1, (size.fixed + outputs - 1) / outputs));
  }
  if (static_cast<int>(counts.size()) != call.output_count())
    call.damaged(fmt::format("it has {} parts and {} results", counts.size(), call.output_count()));
  const std::vector<ValueId> parts = parts_of(call, x, axis, counts);
  for (int i = 0; i < call.output_count(); ++i) call.give(parts[static_cast<std::size_t>(i)], i);
}

void split_to_sequence(Call& call) {
  const ValueId x = call.value(0);
  const int axis = axis_attribute(call, x, 0);
  if (!call.has_input(1)) call.refuse("it divides an axis into single elements");
  if (call.integer("keepdims", 1) == 0) call.refuse("it removes the axis that it divides");
  const Numbers& sizes = call.needed_numbers(1);
  if (sizes.count() > most_parts) call.damaged(fmt::format("it has {} parts", sizes.count()));
  call.give(parts_of(call, x, axis,
                     sizes.shape.rank() == 0
                         ? equal_parts(call, x, axis, fixed_integer_of(call, sizes))
                         : fixed_integers_of(call, sizes)));
}

void sequence_at(Call& call) {
  const std::vector<ValueId>& parts = call.known(0).parts;
  const std::int64_t given = fixed_integer_of(call, call.needed_numbers(1));
  const auto count = static_cast<std::int64_t>(parts.size());
  if (given < -count || given >= count)
    call.damaged(fmt::format("element {} of a sequence of {}", given, count));
  call.give(parts[static_cast<std::size_t>(given < 0 ? given + count : given)]);
}

void concatenate(Call& call) {
  std::vector<ValueId> parts;
  parts.reserve(static_cast<std::size_t>(call.input_count()));
  for (int i = 0; i < call.input_count(); ++i) parts.push_back(call.value(i));
  if (parts.empty()) call.damaged("it has no inputs");
  const int axis = axis_attribute(call, parts.front(), 0);
  call.give(parts.size() == 1 ? parts.front() : call.add(Concatenate{axis}, parts));
}

/// Whether these are consecutive, and so a Slice.
bool are_consecutive(const std::vector<std::int64_t>& numbers) {
  for (std::size_t i = 1; i < numbers.size(); ++i)
    if (numbers[i] != numbers[0] + static_cast<std::int64_t>(i)) return false;
  return !numbers.empty();
}

/// Gather knows no row of padding, but PyTorch notes what its operator was given.
Embedding embedding_of(const Call& call, std::int64_t rows) {
  const std::vector<std::string> noted = call.noted_arguments("embedding.default");
  if (noted.size() > 3 && noted[3] == "True") call.refuse("scale_grad_by_freq=True");
  std::int64_t row = -1;
  if (noted.size() > 2) {
    const char* const end = noted[2].data() + noted[2].size();
    const auto [read_to, error] = std::from_chars(noted[2].data(), end, row);
    if (error != std::errc() || read_to != end || row < -1 || row >= rows)
      call.damaged(
          fmt::format("its padding_idx is '{}' in a table of {} rows", printable(noted[2]), rows));
  }
  return {.padding_row = row};
}

/// x[:, 0] and x[:, 2:4] for data; rows of a table for indices.
void gather(Call& call) {
  const ValueId x = call.value(0);
  const int axis = axis_attribute(call, x, 0);
  const bool is_table =
      call.shape(x).size() == 2 && axis == 0 && call.at(x).kind == Value::Kind::parameter;
  if (is_table && !(call.is_known(1) && call.numbers(1)->shape.rank() == 0))
    return call.give(call.add(embedding_of(call, call.shape(x)[0].fixed), {x, call.value(1)}));
  const Numbers& which = call.needed_numbers(1);
  const Size& size = call.shape(x)[static_cast<std::size_t>(axis)];
  if (!is_fixed(size)) call.refuse("it selects samples of the batch");
  std::vector<std::int64_t> indices = fixed_integers_of(call, which);
  for (std::int64_t& index : indices) {
    if (index < -size.fixed || index >= size.fixed)
      call.damaged(fmt::format("index {} of an axis of size {}", index, size.fixed));
    if (index < 0) index += size.fixed;
  }
  if (which.shape.rank() > 1 || !are_consecutive(indices))
    call.refuse("it selects elements that are not consecutive");
  const ValueId part = sliced(call, x, axis, indices[0], static_cast<std::int64_t>(indices.size()));
  if (which.shape.rank() == 1) return call.give(part);
  Sizes shape = call.shape(part);
  shape.erase(shape.begin() + axis);
  give_reshaped(call, part, std::move(shape));
}

void identity(Call& call) {
  if (!call.noted_arguments("detach.default").empty()) call.refuse("it stops the gradient");
  if (const Known& known = call.known(0); !known.parts.empty()) return call.give(known.parts);
  call.give(call.value(0));
}

/// Conversions between floating-point types change nothing: the precision of a run is an option.
void cast(Call& call) {
  if (const auto& part = call.dropout(0)) return call.give(*part);
  const ValueId x = call.value(0);
  const DType to = call.operation() == "Cast" ? cast_type(call, call.integer("to", 0))
                                              : call.at(call.value(1)).dtype;
  if (to != call.at(x).dtype && !(is_floating(to) && is_floating(call.at(x).dtype)))
    call.refuse(fmt::format("it converts {} to {}", troupe::name_of(call.at(x).dtype),
                            troupe::name_of(to)));
  call.give(x);
}

constexpr NamedHandler handlers[] = {
    {"Reshape", reshape},
    {"Flatten", flatten},
    {"Squeeze", squeeze},
    {"Unsqueeze", unsqueeze},
    {"ConstantOfShape", constant_of_shape},
    {"Expand", expand},
    {"Transpose", transpose},
    {"Slice", slice},
    {"Split", split},
    {"SplitToSequence", split_to_sequence},
    {"SequenceAt", sequence_at},
    {"Concat", concatenate},
    {"Gather", gather},
    {"Identity", identity},
    {"Cast", cast},
    {"CastLike", cast},
};

}  // namespace

std::span<const NamedHandler> movement_handlers() { return handlers; }

}  // namespace troupe::graph::onnx

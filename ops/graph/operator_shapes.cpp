// The shape of each operator's result, and whether it takes its inputs.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ops/graph/compositions.h"
#include "ops/graph/shapes.h"
#include "ops/graph/size_arithmetic.h"
#include "runtime/error.h"
#include "runtime/overloaded.h"
#include "runtime/text.h"

namespace troupe::graph {
namespace {

/// The inputs of one operator.
class Inputs {
 public:
  Inputs(std::string_view name, std::span<const Sizes* const> shapes)
      : name_(name), shapes_(shapes) {}

  /// The first `needed` inputs are there, and no more than `most`.
  void count(std::size_t needed, std::size_t most) const {
    require(shapes_.size() >= needed && shapes_.size() <= most, "it has {}",
            counted(static_cast<std::int64_t>(shapes_.size()), "input"));
    for (std::size_t i = 0; i < needed; ++i) require(has(i), "input {} is absent", i);
  }
  std::size_t size() const { return shapes_.size(); }
  bool has(std::size_t i) const { return i < shapes_.size() && shapes_[i]; }
  const Sizes& operator[](std::size_t i) const { return *shapes_[i]; }

  template <class... Args>
  void require(bool holds, fmt::format_string<Args...> format, Args&&... args) const {
    if (holds) return;
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: {}", name_, fmt::format(format, std::forward<Args>(args)...)),
                "the file is damaged or was changed after its export");
  }
  /// Input `i` is a vector of this size.
  void vector(std::size_t i, const Size& size) const {
    require(*shapes_[i] == Sizes{size}, "input {} is {}, not {}", i, to_string(*shapes_[i]),
            to_string(Sizes{size}));
  }
  void images() const {
    require(shapes_[0]->size() == 4 && has_batch_axis(*shapes_[0]),
            "it takes images [batch, channels, height, width], not {}", to_string(*shapes_[0]));
  }

 private:
  std::string_view name_;
  std::span<const Sizes* const> shapes_;
};

constexpr std::int64_t largest_window = 1 << 20;

/// The size of an axis after a window has passed over it.
Size windows(const Inputs& in, const Size& size, std::int64_t kernel, std::int64_t stride,
             std::int64_t padding, std::int64_t dilation) {
  in.require(kernel > 0 && stride > 0 && padding >= 0 && dilation > 0 &&
                 std::max({kernel, stride, padding, dilation}) <= largest_window,
             "kernel {}, stride {}, padding {}, dilation {}", kernel, stride, padding, dilation);
  const std::int64_t covered = (kernel - 1) * dilation + 1, padded = size.fixed + 2 * padding;
  in.require(padded >= covered, "a window of {} does not fit into {} pixels", covered, padded);
  return fixed((padded - covered) / stride + 1);
}

Sizes convolution(const Inputs& in, const ConvolutionOptions& o) {
  in.count(2, 3);
  in.images();
  in.require(o.in_channels > 0 && o.out_channels > 0 && o.groups > 0 &&
                 o.in_channels % o.groups == 0 && o.out_channels % o.groups == 0,
             "{} channels, {} outputs, {} groups", o.in_channels, o.out_channels, o.groups);
  in.require(in[0][1] == fixed(o.in_channels), "the weight is for {} channels, the images have {}",
             o.in_channels, in[0][1].fixed);
  const Sizes weight{fixed(o.out_channels), fixed(o.in_channels / o.groups), fixed(o.kernel_h),
                     fixed(o.kernel_w)};
  const bool flat = in[1].size() == 3 && weight[2] == fixed(1) && in[1] == as_sequences(weight);
  in.require(flat || in[1] == weight, "the weight is {}, not {}", to_string(in[1]),
             to_string(weight));
  in.require(in.has(2) == o.bias, "{}",
             o.bias ? "its bias is absent" : "it has a bias that it does not declare");
  if (o.bias) in.vector(2, fixed(o.out_channels));
  return {in[0][0], fixed(o.out_channels),
          windows(in, in[0][2], o.kernel_h, o.stride_h, o.padding_h, o.dilation_h),
          windows(in, in[0][3], o.kernel_w, o.stride_w, o.padding_w, o.dilation_w)};
}

Sizes pooling(const Inputs& in, const PoolOptions& o) {
  in.count(1, 1);
  in.images();
  in.require(o.padding_h <= o.kernel_h / 2 && o.padding_w <= o.kernel_w / 2,
             "the padding exceeds half of the window");
  return {in[0][0], in[0][1], windows(in, in[0][2], o.kernel_h, o.stride_h, o.padding_h, 1),
          windows(in, in[0][3], o.kernel_w, o.stride_w, o.padding_w, 1)};
}

Sizes linear(const Inputs& in) {
  in.count(2, 3);
  in.require(in[1].size() == 2 && is_fixed(in[1][0]) && is_fixed(in[1][1]), "the weight is {}",
             to_string(in[1]));
  in.require(in[0].size() >= 2 && in[0].back() == in[1][1],
             "the weight {} does not fit an input {}", to_string(in[1]), to_string(in[0]));
  if (in.has(2)) in.vector(2, in[1][0]);
  Sizes result = in[0];
  result.back() = in[1][0];
  return result;
}

Sizes batch_norm(const Inputs& in) {
  in.count(5, 5);
  in.require((in[0].size() == 4 || in[0].size() == 2) && has_batch_axis(in[0]),
             "it takes [batch, channels, height, width] or [batch, features], not {}",
             to_string(in[0]));
  for (std::size_t i = 1; i < 5; ++i) in.vector(i, in[0][1]);
  return in[0];
}

Sizes layer_norm(const Inputs& in, std::int64_t features) {
  in.count(1, 3);
  std::int64_t last = 1;
  std::size_t axes = 0;
  while (axes < in[0].size() && last < features && is_fixed(in[0][in[0].size() - 1 - axes]))
    last *= in[0][in[0].size() - 1 - axes++].fixed;
  if (axes == 0 && !in[0].empty()) last = in[0].back().fixed;
  in.require(features > 0 && last == features, "it normalises {} features of {}", features,
             to_string(in[0]));
  for (std::size_t i = 1; i < 3; ++i)
    if (in.has(i))
      in.require(product(in[i]) == fixed(features), "{} features, but input {} is {}", features, i,
                 to_string(in[i]));
  return in[0];
}

Sizes broadcast(const Inputs& in, std::span<const Size> a, std::span<const Size> b) {
  const std::optional<Sizes> result = graph::broadcast(a, b);
  in.require(result.has_value(), "{} and {} do not fit", to_string(Sizes(a.begin(), a.end())),
             to_string(Sizes(b.begin(), b.end())));
  return *result;
}

Sizes matmul(const Inputs& in) {
  in.count(2, 2);
  const Sizes &a = in[0], &b = in[1];
  in.require(a.size() >= 2 && b.size() >= 2 && a.back() == b[b.size() - 2], "{} times {}",
             to_string(a), to_string(b));
  Sizes result = broadcast(in, std::span(a).first(a.size() - 2), std::span(b).first(b.size() - 2));
  result.push_back(a[a.size() - 2]);
  result.push_back(b.back());
  return result;
}

Sizes attention(const Inputs& in) {
  in.count(3, 4);
  const Sizes &q = in[0], &k = in[1], &v = in[2];
  const std::size_t rank = q.size();
  in.require(rank >= 3 && k.size() == rank && v.size() == rank &&
                 std::equal(q.begin(), q.end() - 2, k.begin()) &&
                 std::equal(q.begin(), q.end() - 2, v.begin()) && q.back() == k.back() &&
                 k[rank - 2] == v[rank - 2],
             "queries {}, keys {}, values {}", to_string(q), to_string(k), to_string(v));
  if (in.has(3)) {
    Sizes scores = q;
    scores.back() = k[rank - 2];
    in.require(broadcast(in, scores, in[3]) == scores, "the mask {} does not fit the scores {}",
               to_string(in[3]), to_string(scores));
  }
  Sizes result = q;
  result.back() = v.back();
  return result;
}

Sizes reduce(const Inputs& in, const Reduce& o) {
  in.count(1, 1);
  std::set<int> axes;
  for (const int axis : o.axes) axes.insert(axis_of(axis, in[0].size()));
  in.require(!axes.empty() && axes.size() == o.axes.size(), "its axes are absent or not distinct");
  Sizes result;
  for (std::size_t i = 0; i < in[0].size(); ++i) {
    if (!axes.contains(static_cast<int>(i))) result.push_back(in[0][i]);
    if (axes.contains(static_cast<int>(i)) && o.keeps_axes) result.push_back(fixed(1));
  }
  return result;
}

Sizes expand(const Inputs& in, const Sizes& shape) {
  in.count(1, 1);
  in.require(broadcast(in, in[0], shape) == shape, "{} cannot be expanded to {}", to_string(in[0]),
             to_string(shape));
  return shape;
}

Sizes permute(const Inputs& in, const std::vector<int>& axes) {
  in.count(1, 1);
  std::set<int> seen;
  Sizes result;
  for (const int axis : axes) {
    seen.insert(axis_of(axis, in[0].size()));
    result.push_back(in[0][static_cast<std::size_t>(axis_of(axis, in[0].size()))]);
  }
  in.require(seen.size() == in[0].size() && axes.size() == seen.size(),
             "its axes are not a permutation of those of {}", to_string(in[0]));
  return result;
}

Sizes slice(const Inputs& in, const Slice& o) {
  in.count(1, 1);
  const auto axis = static_cast<std::size_t>(axis_of(o.axis, in[0].size()));
  const Size& size = in[0][axis];
  in.require(is_fixed(size) && o.start >= 0 && o.count > 0 && o.start <= size.fixed - o.count,
             "it takes {} elements from {} of axis {} of {}", o.count, o.start, axis,
             to_string(in[0]));
  Sizes result = in[0];
  result[axis] = fixed(o.count);
  return result;
}

Sizes concatenate(const Inputs& in, int along) {
  in.count(1, SIZE_MAX);
  const auto axis = static_cast<std::size_t>(axis_of(along, in[0].size()));
  Sizes result = in[0];
  for (std::size_t i = 1; i < in.size(); ++i) {
    in.require(in.has(i), "input {} is absent", i);
    Sizes other = in[i];
    in.require(other.size() == result.size(), "{} behind {}", to_string(other), to_string(result));
    const auto sum = add(result[axis], other[axis]);
    result[axis] = other[axis];
    in.require(sum && other == result, "{} behind {}", to_string(in[i]), to_string(in[0]));
    result[axis] = *sum;
  }
  return result;
}

Sizes embedding(const Inputs& in) {
  in.count(2, 2);
  in.require(in[0].size() == 2 && is_fixed(in[0][0]) && is_fixed(in[0][1]), "the weight is {}",
             to_string(in[0]));
  Sizes result = in[1];
  result.push_back(in[0][1]);
  return result;
}

void check_probability(const Inputs& in, double probability) {
  in.require(probability >= 0 && probability < 1, "the probability is {}", probability);
}

Sizes same(const Inputs& in) {
  in.count(1, 1);
  return in[0];
}

}  // namespace

Sizes shape_of(const Operator& operation, std::span<const Sizes* const> inputs) {
  const Inputs in(name_of(operation), inputs);
  Sizes result = std::visit(
      Overloaded{[&](const Convolution& o) { return convolution(in, o.options); },
                 [&](const Linear&) { return linear(in); },
                 [&](const BatchNorm&) { return batch_norm(in); },
                 [&](const LayerNorm& o) { return layer_norm(in, o.features); },
                 [&](const Embedding&) { return embedding(in); },
                 [&](const Arithmetic&) {
                   in.count(2, 2);
                   return broadcast(in, in[0], in[1]);
                 },
                 [&](const Matmul&) { return matmul(in); },
                 [&](const Attention& o) {
                   check_probability(in, o.dropout);
                   return attention(in);
                 },
                 [&](const Softmax& o) {
                   axis_of(o.axis, same(in).size());
                   return in[0];
                 },
                 [&](const Reduce& o) { return reduce(in, o); },
                 [&](const MaxPool& o) { return pooling(in, o.options); },
                 [&](const AveragePool& o) { return pooling(in, o.options); },
                 [&](const AdaptiveAveragePool& o) {
                   in.count(1, 1);
                   in.images();
                   in.require(o.out_h > 0 && o.out_w > 0, "an image of {} x {}", o.out_h, o.out_w);
                   return Sizes{in[0][0], in[0][1], fixed(o.out_h), fixed(o.out_w)};
                 },
                 [&](const Reshape& o) { return resolved(o.shape, same(in)); },
                 [&](const Expand& o) { return expand(in, o.shape); },
                 [&](const Permute& o) { return permute(in, o.axes); },
                 [&](const Slice& o) { return slice(in, o); },
                 [&](const Concatenate& o) { return concatenate(in, o.axis); },
                 [&](const Dropout& o) {
                   check_probability(in, o.probability);
                   const int rank = static_cast<int>(same(in).size());
                   in.require(o.drawn_axes >= 0 && o.drawn_axes <= rank, "{} of {} axes",
                              o.drawn_axes, rank);
                   return in[0];
                 },
                 [&](const OneOf<Relu, Activate, Clamp, Affine> auto&) { return same(in); }},
      operation);
  in.require(result.size() <= static_cast<std::size_t>(Shape::max_rank),
             "its result {} has more than {} axes", to_string(result), Shape::max_rank);
  in.require(can_exist(result), "no tensor is {}, as its result", to_string(result));
  return result;
}

}  // namespace troupe::graph

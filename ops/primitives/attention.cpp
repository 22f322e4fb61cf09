#include "ops/primitives/attention.h"

#include <fmt/format.h>

#include <cmath>

#include "ops/on_device.h"
#include "ops/primitives/checks.h"
#include "runtime/error.h"

namespace troupe::primitives {
namespace {

bool same_outer_axes(const Shape& a, const Shape& b) {
  if (a.rank() < 2 || a.rank() != b.rank()) return false;
  for (int axis = 0; axis < a.rank() - 2; ++axis)
    if (a[axis] != b[axis]) return false;
  return true;
}

void check(const Shape& q, const Shape& k, const Shape& v) {
  if (same_outer_axes(q, k) && same_outer_axes(q, v) && q.dim(-1) == k.dim(-1) &&
      k.dim(-2) == v.dim(-2) && q.dim(-1) > 0)
    return;
  throw Error(ErrorCode::bad_shape,
              fmt::format("{}: q {}, k {}, v {}", Attention::name, to_string(q), to_string(k),
                          to_string(v)),
              "they are [..., tokens, features], [..., keys, features] and [..., keys, outputs], "
              "with the same outer axes; expand them before");
}

void check_mask(const Shape& mask, const Shape& q, const Shape& k) {
  bool fits = mask.rank() <= q.rank();
  for (int axis = -1; fits && axis >= -mask.rank(); --axis) {
    const std::int64_t size = axis == -1 ? k.dim(-2) : q.dim(axis);
    fits = mask.dim(axis) == 1 || mask.dim(axis) == size;
  }
  if (fits) return;
  throw Error(ErrorCode::bad_shape,
              fmt::format("{}: a mask {} for q {} and k {}", Attention::name, to_string(mask),
                          to_string(q), to_string(k)),
              "its axes must be those of [..., tokens, keys] or 1");
}

}  // namespace

AttentionOptions Attention::options(const Tensor& q) const {
  const double usual = 1.0 / std::sqrt(static_cast<double>(q.dim(-1)));
  return {causal, scale == 0.0 ? usual : scale};
}

Tensor Attention::forward(const Pass& pass, const Tensor& q, const Tensor& k, const Tensor& v) {
  check(q.shape(), k.shape(), v.shape());
  if (mask.defined()) check_mask(mask.shape(), q.shape(), k.shape());
  state.layouts = {q.layout(), k.layout(), v.layout()};
  state.q = in_layout(pass, q, Layout::row_major);
  state.k = in_layout(pass, k, Layout::row_major);
  state.v = in_layout(pass, v, Layout::row_major);
  state.mask = on_device(pass.stream, mask, pass.dtype);
  state.output =
      pass.kernels().attention(pass.stream, state.q, state.k, state.v, state.mask, options(q));
  return state.output.y;
}

void Attention::input_gradient(const Pass& pass, const Tensor& grad,
                               std::span<InputGradient> inputs) {
  const auto gradients = pass.kernels().attention_backward(
      pass.stream, grad, state.q, state.k, state.v, state.mask, state.output, options(state.q));
  inputs[0].grad = in_layout(pass, gradients.q, state.layouts[0]);
  inputs[1].grad = in_layout(pass, gradients.k, state.layouts[1]);
  inputs[2].grad = in_layout(pass, gradients.v, state.layouts[2]);
}

}  // namespace troupe::primitives

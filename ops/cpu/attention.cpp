// Attention by blocks of tokens: the scores of a block and all keys stay in a core's cache. The
// forward pass keeps the logarithm of each token's sum; the backward pass computes the scores again
// and adds the gradients of a head's keys and values block by block, on one thread.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/attention_sizes.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/matrix_product.h"
#include "ops/cpu/pieces.h"
#include "ops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/attention.cpp"
#include <hwy/foreach_target.h>

#include "hwy/contrib/math/math-inl.h"  // quoted, so that it stays below foreach_target.h
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {

float largest_of(const float* x, std::int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto best = hn::Set(d, -std::numeric_limits<float>::infinity());
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) best = hn::Max(best, hn::LoadU(d, x + i));
  float largest = hn::GetLane(hn::MaxOfLanes(d, best));
  for (; i < count; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

/// x = exp(x - shift); returns the sum.
float exponentials(float* x, float shift, std::int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto sums = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto e = hn::Exp(d, hn::Sub(hn::LoadU(d, x + i), hn::Set(d, shift)));
    sums = hn::Add(sums, e);
    hn::StoreU(e, d, x + i);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, sums));
  const hn::CappedTag<float, 1> single;
  for (; i < count; ++i) {
    const auto e = hn::Exp(single, hn::Sub(hn::LoadU(single, x + i), hn::Set(single, shift)));
    hn::StoreU(e, single, x + i);
    sum += x[i];
  }
  return sum;
}

void multiply_by(float* x, float factor, std::int64_t count) {
  for_lanes(count, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, factor)), d, x + i);
  });
}

void add_mask(float* x, const float* mask, std::int64_t stride, std::int64_t count) {
  for_lanes(count, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto m = stride == 0 ? hn::Set(d, *mask) : hn::LoadU(d, mask + i);
    hn::StoreU(hn::Add(hn::LoadU(d, x + i), m), d, x + i);
  });
}

/// The gradient of the scores before the softmax: slopes = shares * (slopes - mean).
void score_gradient(const float* shares, float mean, float* slopes, std::int64_t count) {
  for_lanes(count, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto slope = hn::Sub(hn::LoadU(d, slopes + i), hn::Set(d, mean));
    hn::StoreU(hn::Mul(hn::LoadU(d, shares + i), slope), d, slopes + i);
  });
}

float dot_product(const float* a, const float* b, std::int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto sums = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    sums = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sums);
  float sum = hn::GetLane(hn::SumOfLanes(d, sums));
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::cpu {

HWY_EXPORT(largest_of);
HWY_EXPORT(exponentials);
HWY_EXPORT(multiply_by);
HWY_EXPORT(add_mask);
HWY_EXPORT(score_gradient);
HWY_EXPORT(dot_product);

namespace {

constexpr float none = -std::numeric_limits<float>::infinity();

/// Some tokens of one of the outer matrices, and the keys that any of them sees.
struct Block {
  std::int64_t outer = 0, first = 0, tokens = 0, keys = 0;
};

class Attention {
 public:
  Attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
            const AttentionOptions& options)
      : s_(q, k, v),
        options_(options),
        masks_(mask, q.shape()),
        q_(q.data<float>()),
        k_(k.data<float>()),
        v_(v.data<float>()) {}

  const AttentionSizes& sizes() const { return s_; }
  bool empty() const { return s_.outer == 0 || s_.tokens == 0 || s_.keys == 0 || s_.outputs == 0; }

  /// Scores of a quarter of a core's cache of 1 MiB.
  std::int64_t block_tokens() const {
    return std::min(s_.tokens, std::clamp<std::int64_t>(65536 / s_.keys, 16, 128));
  }
  std::int64_t blocks() const { return (s_.tokens + block_tokens() - 1) / block_tokens(); }
  Block block(std::int64_t outer, std::int64_t number) const {
    const std::int64_t first = number * block_tokens();
    const std::int64_t tokens = std::min(block_tokens(), s_.tokens - first);
    return {outer, first, tokens, s_.seen(options_.causal, first + tokens - 1)};
  }
  std::size_t score_bytes() const {
    return aligned_bytes(static_cast<std::size_t>(block_tokens() * s_.keys) * sizeof(float));
  }

  const float* queries(const Block& b) const {
    return q_ + (b.outer * s_.tokens + b.first) * s_.features;
  }
  const float* keys(const Block& b) const { return k_ + b.outer * s_.keys * s_.features; }
  const float* values(const Block& b) const { return v_ + b.outer * s_.keys * s_.outputs; }

  /// [tokens, keys] of a block, of what its tokens see.
  dnnl_status_t scores(const Block& b, float* to) const {
    const auto status =
        multiply({b.tokens, s_.features, b.keys}, static_cast<float>(options_.scale),
                 {queries(b), s_.features}, {keys(b), s_.features, true}, false, to, b.keys);
    if (masks_.defined())
      for (std::int64_t t = 0; t < b.tokens; ++t) {
        const MaskRow<float> row = masks_.row(b.outer, b.first + t);
        HWY_DYNAMIC_DISPATCH(add_mask)(to + t * b.keys, row.first, row.stride, seen(b, t));
      }
    return status;
  }
  std::int64_t seen(const Block& b, std::int64_t token) const {
    return s_.seen(options_.causal, b.first + token);
  }

  /// Makes shares of the scores, and writes the logarithms of their sums.
  void normalise(const Block& b, float* scores, float* log_sums) const {
    for (std::int64_t t = 0; t < b.tokens; ++t) {
      float* row = scores + t * b.keys;
      const std::int64_t count = seen(b, t);
      const float largest = HWY_DYNAMIC_DISPATCH(largest_of)(row, count);
      if (largest == none) {
        hide(row, 0, b.keys);
        log_sums[t] = none;
        continue;
      }
      const float sum = HWY_DYNAMIC_DISPATCH(exponentials)(row, largest, count);
      HWY_DYNAMIC_DISPATCH(multiply_by)(row, 1.0f / sum, count);
      hide(row, count, b.keys);
      log_sums[t] = largest + std::log(sum);
    }
  }
  /// The same from the logarithms of the sums.
  void normalise_again(const Block& b, float* scores, const float* log_sums) const {
    for (std::int64_t t = 0; t < b.tokens; ++t) {
      float* row = scores + t * b.keys;
      const std::int64_t count = log_sums[t] == none ? 0 : seen(b, t);
      HWY_DYNAMIC_DISPATCH(exponentials)(row, log_sums[t], count);
      hide(row, count, b.keys);
    }
  }

 private:
  static void hide(float* row, std::int64_t begin, std::int64_t end) {
    std::fill(row + begin, row + end, 0.0f);
  }

  AttentionSizes s_;
  AttentionOptions options_;
  MaskRows<float> masks_;
  const float *q_, *k_, *v_;
};

/// The gradients of one of the outer matrices, added up block by block.
class BackwardPass {
 public:
  BackwardPass(const Attention& attention, const Tensor& grad, const AttentionOutput& output,
               const AttentionOptions& options, const AttentionGradients& gradients)
      : attention_(attention),
        s_(attention.sizes()),
        scale_(static_cast<float>(options.scale)),
        grad_(grad.data<float>()),
        y_(output.y.data<float>()),
        log_sums_(output.log_sums.data<float>()),
        q_(gradients.q.data<float>()),
        k_(gradients.k.data<float>()),
        v_(gradients.v.data<float>()) {}

  dnnl_status_t run(std::int64_t outer, std::byte* memory) const {
    float* const k_grad = k_ + outer * s_.keys * s_.features;
    float* const v_grad = v_ + outer * s_.keys * s_.outputs;
    std::fill_n(k_grad, s_.keys * s_.features, 0.0f);
    std::fill_n(v_grad, s_.keys * s_.outputs, 0.0f);
    auto* shares = reinterpret_cast<float*>(memory);
    auto* slopes = reinterpret_cast<float*>(memory + attention_.score_bytes());
    dnnl_status_t status = dnnl_success;
    for (std::int64_t i = 0; i < attention_.blocks() && status == dnnl_success; ++i)
      status = add(attention_.block(outer, i), shares, slopes, k_grad, v_grad);
    return status;
  }

 private:
  dnnl_status_t add(const Block& b, float* shares, float* slopes, float* k_grad,
                    float* v_grad) const {
    const std::int64_t first = b.outer * s_.tokens + b.first;
    const float *grad = grad_ + first * s_.outputs, *y = y_ + first * s_.outputs;
    if (const auto status = attention_.scores(b, shares); status != dnnl_success) return status;
    attention_.normalise_again(b, shares, log_sums_ + first);
    auto status = multiply({b.keys, b.tokens, s_.outputs}, 1.0f, {shares, b.keys, true},
                           {grad, s_.outputs}, true, v_grad, s_.outputs);
    if (status != dnnl_success) return status;
    status = multiply({b.tokens, s_.outputs, b.keys}, 1.0f, {grad, s_.outputs},
                      {attention_.values(b), s_.outputs, true}, false, slopes, b.keys);
    if (status != dnnl_success) return status;
    for (std::int64_t t = 0; t < b.tokens; ++t) {
      const float mean =
          HWY_DYNAMIC_DISPATCH(dot_product)(grad + t * s_.outputs, y + t * s_.outputs, s_.outputs);
      HWY_DYNAMIC_DISPATCH(score_gradient)(shares + t * b.keys, mean, slopes + t * b.keys, b.keys);
    }
    status =
        multiply({b.tokens, b.keys, s_.features}, scale_, {slopes, b.keys},
                 {attention_.keys(b), s_.features}, false, q_ + first * s_.features, s_.features);
    if (status != dnnl_success) return status;
    return multiply({b.keys, b.tokens, s_.features}, scale_, {slopes, b.keys, true},
                    {attention_.queries(b), s_.features}, true, k_grad, s_.features);
  }

  const Attention& attention_;
  const AttentionSizes& s_;
  float scale_;
  const float *grad_, *y_, *log_sums_;
  float *q_, *k_, *v_;
};

}  // namespace

AttentionOutput attention(const Stream& stream, const Tensor& q, const Tensor& k, const Tensor& v,
                          const Tensor& mask, const AttentionOptions& options) {
  const Attention attention(q, k, v, mask, options);
  const AttentionSizes& s = attention.sizes();
  std::vector<std::int64_t> sizes(q.shape().dims().begin(), q.shape().dims().end() - 1);
  AttentionOutput output;
  output.log_sums =
      Tensor::empty(Shape(std::span<const std::int64_t>(sizes)), DType::f32, stream.device);
  sizes.push_back(s.outputs);
  output.y = Tensor::empty(Shape(std::span<const std::int64_t>(sizes)), DType::f32, stream.device);
  auto* const y = output.y.data<float>();
  auto* const log_sums = output.log_sums.data<float>();
  if (attention.empty()) {
    std::ranges::fill(output.y.elements<float>(), 0.0f);
    std::ranges::fill(output.log_sums.elements<float>(), none);
    return output;
  }
  const std::int64_t blocks = attention.blocks();
  run_pieces(stream, static_cast<std::size_t>(s.outer * blocks), attention.score_bytes(),
             [&](std::size_t piece, std::byte* memory) {
               const auto number = static_cast<std::int64_t>(piece);
               const Block b = attention.block(number / blocks, number % blocks);
               const std::int64_t first = b.outer * s.tokens + b.first;
               auto* scores = reinterpret_cast<float*>(memory);
               const dnnl_status_t status = attention.scores(b, scores);
               if (status != dnnl_success) return status;
               attention.normalise(b, scores, log_sums + first);
               return multiply({b.tokens, b.keys, s.outputs}, 1.0f, {scores, b.keys},
                               {attention.values(b), s.outputs}, false, y + first * s.outputs,
                               s.outputs);
             });
  return output;
}

AttentionGradients attention_backward(const Stream& stream, const Tensor& grad, const Tensor& q,
                                      const Tensor& k, const Tensor& v, const Tensor& mask,
                                      const AttentionOutput& output,
                                      const AttentionOptions& options) {
  const Attention attention(q, k, v, mask, options);
  AttentionGradients gradients{Tensor::empty(q.shape(), DType::f32, stream.device),
                               Tensor::empty(k.shape(), DType::f32, stream.device),
                               Tensor::empty(v.shape(), DType::f32, stream.device)};
  if (attention.empty()) {
    for (const Tensor* gradient : {&gradients.q, &gradients.k, &gradients.v})
      std::ranges::fill(gradient->elements<float>(), 0.0f);
    return gradients;
  }
  const BackwardPass pass(attention, grad, output, options, gradients);
  run_pieces(stream, static_cast<std::size_t>(attention.sizes().outer), 2 * attention.score_bytes(),
             [&](std::size_t outer, std::byte* memory) {
               return pass.run(static_cast<std::int64_t>(outer), memory);
             });
  return gradients;
}

}  // namespace troupe::cpu
#endif

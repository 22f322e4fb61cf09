// Attention by blocks of tokens: the scores of a block and all keys stay in a core's cache. The
// forward pass keeps the softmax of the scores of short sequences, of others the logarithm of each
// token's sum, from which the backward pass computes them again. It adds the gradients of a head's
// keys and values block by block, on one thread.

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

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

/// A matrix of dense rows, transposed. oneDNN's product of short matrices takes a transposed factor
/// in four times the time that this takes.
void transpose(const float* HWY_RESTRICT from, std::int64_t rows, std::int64_t columns,
               float* HWY_RESTRICT to) {
  std::int64_t row = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> d;
  for (; row + 4 <= rows; row += 4) {
    const float* HWY_RESTRICT x = from + row * columns;
    float* HWY_RESTRICT y = to + row;
    std::int64_t column = 0;
    for (; column + 4 <= columns; column += 4) {
      const auto a = hn::LoadU(d, x + column), b = hn::LoadU(d, x + columns + column);
      const auto c = hn::LoadU(d, x + 2 * columns + column);
      const auto e = hn::LoadU(d, x + 3 * columns + column);
      const auto ac = hn::InterleaveLower(d, a, c), be = hn::InterleaveLower(d, b, e);
      const auto ac_high = hn::InterleaveUpper(d, a, c), be_high = hn::InterleaveUpper(d, b, e);
      hn::StoreU(hn::InterleaveLower(d, ac, be), d, y + column * rows);
      hn::StoreU(hn::InterleaveUpper(d, ac, be), d, y + (column + 1) * rows);
      hn::StoreU(hn::InterleaveLower(d, ac_high, be_high), d, y + (column + 2) * rows);
      hn::StoreU(hn::InterleaveUpper(d, ac_high, be_high), d, y + (column + 3) * rows);
    }
    for (; column < columns; ++column)
      for (std::int64_t i = 0; i < 4; ++i) y[column * rows + i] = x[i * columns + column];
  }
#endif
  for (; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column)
      to[column * rows + row] = from[row * columns + column];
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
HWY_EXPORT(transpose);

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
  std::size_t score_bytes() const { return bytes_of(block_tokens() * s_.keys); }
  /// Of the keys of one of the outer matrices, and of its values.
  std::size_t key_bytes() const { return bytes_of(s_.keys * s_.features); }
  std::size_t value_bytes() const { return bytes_of(s_.keys * s_.outputs); }

  /// Where the shares take no more memory than q and k, writing and reading them takes less time
  /// than computing them twice.
  bool keeps_shares() const { return s_.tokens * s_.keys <= (s_.tokens + s_.keys) * s_.features; }

  const float* queries(const Block& b) const {
    return q_ + (b.outer * s_.tokens + b.first) * s_.features;
  }
  const float* keys(const Block& b) const { return k_ + b.outer * s_.keys * s_.features; }
  const float* values(const Block& b) const { return v_ + b.outer * s_.keys * s_.outputs; }

  /// [features, keys] and [outputs, keys] of one of the outer matrices, for `scores` and slopes.
  void transpose_keys(const Block& b, float* to) const {
    HWY_DYNAMIC_DISPATCH(transpose)(keys(b), s_.keys, s_.features, to);
  }
  void transpose_values(const Block& b, float* to) const {
    HWY_DYNAMIC_DISPATCH(transpose)(values(b), s_.keys, s_.outputs, to);
  }

  /// [tokens, keys] of a block, of what its tokens see.
  dnnl_status_t scores(const Block& b, const float* transposed_keys, float* to) const {
    const auto status =
        multiply({b.tokens, s_.features, b.keys}, static_cast<float>(options_.scale),
                 {queries(b), s_.features}, {transposed_keys, s_.keys}, false, to, b.keys);
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

  /// Makes shares of the scores, and writes the logarithms of their sums if `log_sums` is given.
  void normalise(const Block& b, float* scores, float* log_sums) const {
    for (std::int64_t t = 0; t < b.tokens; ++t) {
      float* row = scores + t * b.keys;
      const std::int64_t count = seen(b, t);
      const float largest = HWY_DYNAMIC_DISPATCH(largest_of)(row, count);
      if (largest == none) {
        hide(row, 0, b.keys);
        if (log_sums) log_sums[t] = none;
        continue;
      }
      const float sum = HWY_DYNAMIC_DISPATCH(exponentials)(row, largest, count);
      HWY_DYNAMIC_DISPATCH(multiply_by)(row, 1.0f / sum, count);
      hide(row, count, b.keys);
      if (log_sums) log_sums[t] = largest + std::log(sum);
    }
  }
  /// The same from the logarithms of the sums, which are rounded: beside a mask of -1e38 nothing is
  /// left of them. So the shares are divided by their own sum.
  void normalise_again(const Block& b, float* scores, const float* log_sums) const {
    for (std::int64_t t = 0; t < b.tokens; ++t) {
      float* row = scores + t * b.keys;
      const std::int64_t count = log_sums[t] == none ? 0 : seen(b, t);
      const float sum = HWY_DYNAMIC_DISPATCH(exponentials)(row, log_sums[t], count);
      HWY_DYNAMIC_DISPATCH(multiply_by)(row, 1.0f / sum, count);
      hide(row, count, b.keys);
    }
  }

 private:
  static std::size_t bytes_of(std::int64_t elements) {
    return aligned_bytes(static_cast<std::size_t>(elements) * sizeof(float));
  }
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
        saved_(output.saved.data<float>()),
        keeps_shares_(attention.keeps_shares()),
        q_(gradients.q.data<float>()),
        k_(gradients.k.data<float>()),
        v_(gradients.v.data<float>()) {}

  std::size_t scratch_bytes() const {
    return attention_.score_bytes() + attention_.value_bytes() +
           (keeps_shares_ ? 0 : attention_.key_bytes() + attention_.score_bytes());
  }

  dnnl_status_t run(std::int64_t outer, std::byte* memory) const {
    float* const k_grad = k_ + outer * s_.keys * s_.features;
    float* const v_grad = v_ + outer * s_.keys * s_.outputs;
    const Scratches scratch = divided(memory);
    const Block first = attention_.block(outer, 0);  // it writes its keys, the others add to them
    std::fill(k_grad + first.keys * s_.features, k_grad + s_.keys * s_.features, 0.0f);
    std::fill(v_grad + first.keys * s_.outputs, v_grad + s_.keys * s_.outputs, 0.0f);
    attention_.transpose_values(first, scratch.values);
    if (!keeps_shares_) attention_.transpose_keys(first, scratch.keys);
    dnnl_status_t status = dnnl_success;
    for (std::int64_t i = 0; i < attention_.blocks() && status == dnnl_success; ++i)
      status = add(attention_.block(outer, i), scratch, k_grad, v_grad);
    return status;
  }

 private:
  /// Working memory: transposed matrices, and two of the size of a block's scores. The last two are
  /// there where the forward pass kept no shares.
  struct Scratches {
    float *slopes, *values, *keys, *shares;
  };
  Scratches divided(std::byte* memory) const {
    const auto take = [&](std::size_t bytes) {
      return reinterpret_cast<float*>(std::exchange(memory, memory + bytes));
    };
    Scratches scratch{take(attention_.score_bytes()), take(attention_.value_bytes()), nullptr,
                      nullptr};
    if (keeps_shares_) return scratch;
    scratch.keys = take(attention_.key_bytes());
    scratch.shares = take(attention_.score_bytes());
    return scratch;
  }

  /// Lets `shares` point to softmax(scores) of a block.
  dnnl_status_t find_shares(const Block& b, const Scratches& scratch, const float*& shares) const {
    const std::int64_t first = b.outer * s_.tokens + b.first;
    shares = keeps_shares_ ? saved_ + first * s_.keys : scratch.shares;
    if (keeps_shares_) return dnnl_success;
    const dnnl_status_t status = attention_.scores(b, scratch.keys, scratch.shares);
    if (status == dnnl_success) attention_.normalise_again(b, scratch.shares, saved_ + first);
    return status;
  }

  dnnl_status_t add(const Block& b, const Scratches& scratch, float* k_grad, float* v_grad) const {
    const std::int64_t first = b.outer * s_.tokens + b.first;
    const float *grad = grad_ + first * s_.outputs, *y = y_ + first * s_.outputs;
    float* const slopes = scratch.slopes;
    const float* shares = nullptr;
    if (const auto status = find_shares(b, scratch, shares); status != dnnl_success) return status;
    auto status = multiply({b.keys, b.tokens, s_.outputs}, 1.0f, {shares, b.keys, true},
                           {grad, s_.outputs}, b.first > 0, v_grad, s_.outputs);
    if (status != dnnl_success) return status;
    status = multiply({b.tokens, s_.outputs, b.keys}, 1.0f, {grad, s_.outputs},
                      {scratch.values, s_.keys}, false, slopes, b.keys);
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
                    {attention_.queries(b), s_.features}, b.first > 0, k_grad, s_.features);
  }

  const Attention& attention_;
  const AttentionSizes& s_;
  float scale_;
  const float *grad_, *y_, *saved_;  ///< saved_: the shares or the logarithms of the sums
  bool keeps_shares_;
  float *q_, *k_, *v_;
};

}  // namespace

AttentionOutput attention(const Stream& stream, const Tensor& q, const Tensor& k, const Tensor& v,
                          const Tensor& mask, const AttentionOptions& options) {
  const Attention attention(q, k, v, mask, options);
  const AttentionSizes& s = attention.sizes();
  const bool keeps_shares = attention.keeps_shares();
  AttentionOutput output;
  output.saved =
      Tensor::empty(keeps_shares ? Shape{s.outer, s.tokens, s.keys} : Shape{s.outer, s.tokens},
                    DType::f32, stream.device);
  output.y = Tensor::empty(AttentionSizes::y_shape(q, v), DType::f32, stream.device);
  auto* const y = output.y.data<float>();
  if (attention.empty()) {
    std::ranges::fill(output.y.elements<float>(), 0.0f);
    return output;
  }
  auto* const saved = output.saved.data<float>();
  const std::int64_t blocks = attention.blocks();
  run_pieces(stream, static_cast<std::size_t>(s.outer * blocks),
             attention.key_bytes() + (keeps_shares ? 0 : attention.score_bytes()),
             [&](std::size_t piece, std::byte* memory) {
               const auto number = static_cast<std::int64_t>(piece);
               const Block b = attention.block(number / blocks, number % blocks);
               const std::int64_t first = b.outer * s.tokens + b.first;
               auto* const keys = reinterpret_cast<float*>(memory);
               float* const scores = keeps_shares
                                         ? saved + first * s.keys
                                         : reinterpret_cast<float*>(memory + attention.key_bytes());
               attention.transpose_keys(b, keys);
               const dnnl_status_t status = attention.scores(b, keys, scores);
               if (status != dnnl_success) return status;
               attention.normalise(b, scores, keeps_shares ? nullptr : saved + first);
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
  run_pieces(stream, static_cast<std::size_t>(attention.sizes().outer), pass.scratch_bytes(),
             [&](std::size_t outer, std::byte* memory) {
               return pass.run(static_cast<std::int64_t>(outer), memory);
             });
  return gradients;
}

}  // namespace troupe::cpu
#endif

// Attention by blocks of tokens: the scores of a block and all keys stay in a core's cache. The
// forward pass keeps the softmax of the scores of short sequences, of others the logarithm of each
// token's sum, from which the backward pass computes them again. It adds the gradients of a head's
// keys and values block by block, on one thread.

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "ops/attention_sizes.h"
#include "ops/cpu/attention_rows.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/matrix_product.h"
#include "ops/cpu/pieces.h"
#include "ops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/attention.cpp"
#include <hwy/foreach_target.h>

#include "hwy/contrib/math/math-inl.h"  // quoted, so that it stays below foreach_target.h
#include "ops/cpu/exponential-inl.h"
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {

template <class T>
T largest_of(const T* x, std::int64_t count) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto best = hn::Set(d, -std::numeric_limits<T>::infinity());
  auto defined = hn::Eq(best, best);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    defined = hn::And(defined, hn::Eq(v, v));
    best = hn::Max(best, v);
  }
  if (!hn::AllTrue(d, defined)) return std::numeric_limits<T>::quiet_NaN();
  T largest = hn::GetLane(hn::MaxOfLanes(d, best));
  for (; i < count && !std::isnan(largest); ++i)
    if (!(x[i] <= largest)) largest = x[i];
  return largest;
}

template <class T>
T exponentials(T* x, T shift, std::int64_t count) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto sums = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto difference = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, shift));
    const auto e = nan_of(d, difference, hn::Exp(d, difference));
    sums = hn::Add(sums, e);
    hn::StoreU(e, d, x + i);
  }
  T sum = hn::GetLane(hn::SumOfLanes(d, sums));
  const hn::CappedTag<T, 1> single;
  for (; i < count; ++i) {
    const auto difference = hn::Sub(hn::LoadU(single, x + i), hn::Set(single, shift));
    const auto e = nan_of(single, difference, hn::Exp(single, difference));
    hn::StoreU(e, single, x + i);
    sum += x[i];
  }
  return sum;
}

template <class T>
void multiply_by(T* x, T factor, std::int64_t count) {
  for_lanes<T>(count, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, factor)), d, x + i);
  });
}

template <class T>
void add_mask(T* x, const T* mask, std::int64_t stride, std::int64_t count) {
  for_lanes<T>(count, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto m = stride == 0 ? hn::Set(d, *mask) : hn::LoadU(d, mask + i);
    hn::StoreU(hn::Add(hn::LoadU(d, x + i), m), d, x + i);
  });
}

template <class T>
void score_gradient(const T* shares, T mean, T* slopes, std::int64_t count) {
  for_lanes<T>(count, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto slope = hn::Sub(hn::LoadU(d, slopes + i), hn::Set(d, mean));
    hn::StoreU(hn::Mul(hn::LoadU(d, shares + i), slope), d, slopes + i);
  });
}

template <class T>
T dot_product(const T* a, const T* b, std::int64_t count) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto sums = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    sums = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sums);
  T sum = hn::GetLane(hn::SumOfLanes(d, sums));
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

/// Transposes fours of rows where there are vectors for it; returns the number of those rows.
template <class T>
std::int64_t transpose_fours(const T*, std::int64_t, std::int64_t, T*) {
  return 0;
}
#if HWY_TARGET != HWY_SCALAR
/// oneDNN's product of short matrices takes a transposed factor in four times the time that this
/// takes.
std::int64_t transpose_fours(const float* HWY_RESTRICT from, std::int64_t rows,
                             std::int64_t columns, float* HWY_RESTRICT to) {
  std::int64_t row = 0;
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
  return row;
}
#endif

template <class T>
void transpose(const T* from, std::int64_t rows, std::int64_t columns, T* to) {
  for (std::int64_t row = transpose_fours(from, rows, columns, to); row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column)
      to[column * rows + row] = from[row * columns + column];
}

template <class T>
AttentionRows<T> rows_of() {
  return {largest_of<T>,     exponentials<T>, multiply_by<T>, add_mask<T>,
          score_gradient<T>, dot_product<T>,  transpose<T>};
}
AttentionRows<float> rows_f32() { return rows_of<float>(); }
AttentionRows<double> rows_f64() { return rows_of<double>(); }

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::cpu {

HWY_EXPORT(rows_f32);
HWY_EXPORT(rows_f64);

namespace {

AttentionRows<float> rows_of(float) { return HWY_DYNAMIC_DISPATCH(rows_f32)(); }
AttentionRows<double> rows_of(double) { return HWY_DYNAMIC_DISPATCH(rows_f64)(); }

template <class T>
constexpr T none = -std::numeric_limits<T>::infinity();

/// Some tokens of one of the outer matrices, and the keys that any of them sees.
struct Block {
  std::int64_t outer = 0, first = 0, tokens = 0, keys = 0;
};

template <class T>
class Attention {
 public:
  Attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
            const AttentionOptions& options)
      : s_(q, k, v),
        options_(options),
        masks_(mask, q.shape()),
        q_(q.data<T>()),
        k_(k.data<T>()),
        v_(v.data<T>()) {}

  const AttentionSizes& sizes() const { return s_; }
  const AttentionRows<T>& rows() const { return rows_; }
  bool empty() const { return s_.outer == 0 || s_.tokens == 0 || s_.keys == 0 || s_.outputs == 0; }

  /// Scores of a quarter of a core's cache of 1 MiB.
  std::int64_t block_tokens() const {
    constexpr std::int64_t quarter = 262144 / sizeof(T);
    return std::min(s_.tokens, std::clamp<std::int64_t>(quarter / s_.keys, 16, 128));
  }
  std::int64_t blocks() const { return (s_.tokens + block_tokens() - 1) / block_tokens(); }
  Block block(std::int64_t outer, std::int64_t number) const {
    const std::int64_t first = number * block_tokens();
    const std::int64_t tokens = std::min(block_tokens(), s_.tokens - first);
    return {outer, first, tokens, s_.seen(options_.causal, first + tokens - 1)};
  }
  std::size_t score_bytes() const { return bytes_of(block_tokens() * s_.keys); }
  /// Of the products of a block: each size is that of the largest.
  std::size_t multiply_bytes() const {
    return aligned_bytes(
        product_bytes<T>({std::max(block_tokens(), s_.keys),
                          std::max({block_tokens(), s_.keys, s_.features, s_.outputs}),
                          std::max({s_.keys, s_.features, s_.outputs})},
                         false));
  }
  /// Of the keys of one of the outer matrices, and of its values.
  std::size_t key_bytes() const { return bytes_of(s_.keys * s_.features); }
  std::size_t value_bytes() const { return bytes_of(s_.keys * s_.outputs); }

  /// Where the shares take no more memory than q and k, writing and reading them takes less time
  /// than computing them twice.
  bool keeps_shares() const { return s_.tokens * s_.keys <= (s_.tokens + s_.keys) * s_.features; }

  const T* queries(const Block& b) const {
    return q_ + (b.outer * s_.tokens + b.first) * s_.features;
  }
  const T* keys(const Block& b) const { return k_ + b.outer * s_.keys * s_.features; }
  const T* values(const Block& b) const { return v_ + b.outer * s_.keys * s_.outputs; }

  /// [features, keys] and [outputs, keys] of one of the outer matrices, for `scores` and slopes.
  void transpose_keys(const Block& b, T* to) const {
    rows_.transpose(keys(b), s_.keys, s_.features, to);
  }
  void transpose_values(const Block& b, T* to) const {
    rows_.transpose(values(b), s_.keys, s_.outputs, to);
  }

  /// [tokens, keys] of a block, of what its tokens see.
  void scores(const Block& b, const T* transposed_keys, T* to, std::byte* memory) const {
    multiply({b.tokens, s_.features, b.keys}, static_cast<T>(options_.scale),
             {queries(b), s_.features}, {transposed_keys, s_.keys}, false, to, b.keys, memory);
    if (!masks_.defined()) return;
    for (std::int64_t t = 0; t < b.tokens; ++t) {
      const MaskRow<T> row = masks_.row(b.outer, b.first + t);
      rows_.add_mask(to + t * b.keys, row.first, row.stride, seen(b, t));
    }
  }
  std::int64_t seen(const Block& b, std::int64_t token) const {
    return s_.seen(options_.causal, b.first + token);
  }

  /// Makes shares of the scores, and writes the logarithms of their sums if `log_sums` is given.
  void normalise(const Block& b, T* scores, T* log_sums) const {
    for (std::int64_t t = 0; t < b.tokens; ++t) {
      T* row = scores + t * b.keys;
      const std::int64_t count = seen(b, t);
      const T largest = rows_.largest_of(row, count);
      if (largest == none<T>) {
        hide(row, 0, b.keys);
        if (log_sums) log_sums[t] = none<T>;
        continue;
      }
      const T sum = rows_.exponentials(row, largest, count);
      rows_.multiply_by(row, T(1) / sum, count);
      hide(row, count, b.keys);
      if (log_sums) log_sums[t] = largest + std::log(sum);
    }
  }
  /// The same from the logarithms of the sums, which are rounded: beside a mask of -1e38 nothing is
  /// left of them. So the shares are divided by their own sum.
  void normalise_again(const Block& b, T* scores, const T* log_sums) const {
    for (std::int64_t t = 0; t < b.tokens; ++t) {
      T* row = scores + t * b.keys;
      const std::int64_t count = log_sums[t] == none<T> ? 0 : seen(b, t);
      const T sum = rows_.exponentials(row, log_sums[t], count);
      rows_.multiply_by(row, T(1) / sum, count);
      hide(row, count, b.keys);
    }
  }

 private:
  static std::size_t bytes_of(std::int64_t elements) {
    return aligned_bytes(static_cast<std::size_t>(elements) * sizeof(T));
  }
  static void hide(T* row, std::int64_t begin, std::int64_t end) {
    std::fill(row + begin, row + end, T(0));
  }

  AttentionSizes s_;
  AttentionOptions options_;
  MaskRows<T> masks_;
  AttentionRows<T> rows_ = rows_of(T());
  const T *q_, *k_, *v_;
};

/// The gradients of one of the outer matrices, added up block by block.
template <class T>
class BackwardPass {
 public:
  BackwardPass(const Attention<T>& attention, const Tensor& grad, const AttentionOutput& output,
               const AttentionOptions& options, const AttentionGradients& gradients)
      : attention_(attention),
        s_(attention.sizes()),
        scale_(static_cast<T>(options.scale)),
        grad_(grad.data<T>()),
        y_(output.y.data<T>()),
        saved_(output.saved.data<T>()),
        keeps_shares_(attention.keeps_shares()),
        q_(gradients.q.data<T>()),
        k_(gradients.k.data<T>()),
        v_(gradients.v.data<T>()) {}

  std::size_t scratch_bytes() const {
    return attention_.multiply_bytes() + attention_.score_bytes() + attention_.value_bytes() +
           (keeps_shares_ ? 0 : attention_.key_bytes() + attention_.score_bytes());
  }

  void run(std::int64_t outer, std::byte* memory) const {
    T* const k_grad = k_ + outer * s_.keys * s_.features;
    T* const v_grad = v_ + outer * s_.keys * s_.outputs;
    const Scratches scratch = divided(memory);
    const Block first = attention_.block(outer, 0);  // it writes its keys, the others add to them
    std::fill(k_grad + first.keys * s_.features, k_grad + s_.keys * s_.features, T(0));
    std::fill(v_grad + first.keys * s_.outputs, v_grad + s_.keys * s_.outputs, T(0));
    attention_.transpose_values(first, scratch.values);
    if (!keeps_shares_) attention_.transpose_keys(first, scratch.keys);
    for (std::int64_t i = 0; i < attention_.blocks(); ++i)
      add(attention_.block(outer, i), scratch, k_grad, v_grad);
  }

 private:
  /// Working memory: transposed matrices, and two of the size of a block's scores. The last two are
  /// there where the forward pass kept no shares.
  struct Scratches {
    std::byte* products;
    T *slopes, *values, *keys, *shares;
  };
  Scratches divided(std::byte* memory) const {
    std::byte* const products = std::exchange(memory, memory + attention_.multiply_bytes());
    const auto take = [&](std::size_t bytes) {
      return reinterpret_cast<T*>(std::exchange(memory, memory + bytes));
    };
    Scratches scratch{products, take(attention_.score_bytes()), take(attention_.value_bytes()),
                      nullptr, nullptr};
    if (keeps_shares_) return scratch;
    scratch.keys = take(attention_.key_bytes());
    scratch.shares = take(attention_.score_bytes());
    return scratch;
  }

  /// softmax(scores) of a block.
  const T* shares_of(const Block& b, const Scratches& scratch) const {
    const std::int64_t first = b.outer * s_.tokens + b.first;
    if (keeps_shares_) return saved_ + first * s_.keys;
    attention_.scores(b, scratch.keys, scratch.shares, scratch.products);
    attention_.normalise_again(b, scratch.shares, saved_ + first);
    return scratch.shares;
  }

  void add(const Block& b, const Scratches& scratch, T* k_grad, T* v_grad) const {
    const std::int64_t first = b.outer * s_.tokens + b.first;
    const T *grad = grad_ + first * s_.outputs, *y = y_ + first * s_.outputs;
    T* const slopes = scratch.slopes;
    const T* const shares = shares_of(b, scratch);
    multiply({b.keys, b.tokens, s_.outputs}, T(1), {shares, b.keys, true}, {grad, s_.outputs},
             b.first > 0, v_grad, s_.outputs, scratch.products);
    multiply({b.tokens, s_.outputs, b.keys}, T(1), {grad, s_.outputs}, {scratch.values, s_.keys},
             false, slopes, b.keys, scratch.products);
    const AttentionRows<T>& rows = attention_.rows();
    for (std::int64_t t = 0; t < b.tokens; ++t) {
      const T mean = rows.dot_product(grad + t * s_.outputs, y + t * s_.outputs, s_.outputs);
      rows.score_gradient(shares + t * b.keys, mean, slopes + t * b.keys, b.keys);
    }
    multiply({b.tokens, b.keys, s_.features}, scale_, {slopes, b.keys},
             {attention_.keys(b), s_.features}, false, q_ + first * s_.features, s_.features,
             scratch.products);
    multiply({b.keys, b.tokens, s_.features}, scale_, {slopes, b.keys, true},
             {attention_.queries(b), s_.features}, b.first > 0, k_grad, s_.features,
             scratch.products);
  }

  const Attention<T>& attention_;
  const AttentionSizes& s_;
  T scale_;
  const T *grad_, *y_, *saved_;  ///< saved_: the shares or the logarithms of the sums
  bool keeps_shares_;
  T *q_, *k_, *v_;
};

template <class T>
AttentionOutput attend(const Stream& stream, const Tensor& q, const Tensor& k, const Tensor& v,
                       const Tensor& mask, const AttentionOptions& options) {
  const Attention<T> attention(q, k, v, mask, options);
  const AttentionSizes& s = attention.sizes();
  const bool keeps_shares = attention.keeps_shares();
  AttentionOutput output;
  output.saved =
      Tensor::empty(keeps_shares ? Shape{s.outer, s.tokens, s.keys} : Shape{s.outer, s.tokens},
                    q.dtype(), stream.device);
  output.y = Tensor::empty(AttentionSizes::y_shape(q, v), q.dtype(), stream.device);
  T* const y = output.y.template data<T>();
  if (attention.empty()) {
    std::ranges::fill(output.y.template elements<T>(), T(0));
    return output;
  }
  T* const saved = output.saved.template data<T>();
  const std::int64_t blocks = attention.blocks();
  run_pieces(
      stream, static_cast<std::size_t>(s.outer * blocks),
      attention.multiply_bytes() + attention.key_bytes() +
          (keeps_shares ? 0 : attention.score_bytes()),
      [&](std::size_t piece, std::byte* memory) {
        std::byte* const products = std::exchange(memory, memory + attention.multiply_bytes());
        const auto number = static_cast<std::int64_t>(piece);
        const Block b = attention.block(number / blocks, number % blocks);
        const std::int64_t first = b.outer * s.tokens + b.first;
        auto* const keys = reinterpret_cast<T*>(memory);
        T* const scores = keeps_shares ? saved + first * s.keys
                                       : reinterpret_cast<T*>(memory + attention.key_bytes());
        attention.transpose_keys(b, keys);
        attention.scores(b, keys, scores, products);
        attention.normalise(b, scores, keeps_shares ? nullptr : saved + first);
        multiply({b.tokens, b.keys, s.outputs}, T(1), {scores, b.keys},
                 {attention.values(b), s.outputs}, false, y + first * s.outputs, s.outputs,
                 products);
      });
  return output;
}

template <class T>
AttentionGradients gradients_of(const Stream& stream, const Tensor& grad, const Tensor& q,
                                const Tensor& k, const Tensor& v, const Tensor& mask,
                                const AttentionOutput& output, const AttentionOptions& options) {
  const Attention<T> attention(q, k, v, mask, options);
  AttentionGradients gradients{Tensor::empty(q.shape(), q.dtype(), stream.device),
                               Tensor::empty(k.shape(), q.dtype(), stream.device),
                               Tensor::empty(v.shape(), q.dtype(), stream.device)};
  if (attention.empty()) {
    for (const Tensor* gradient : {&gradients.q, &gradients.k, &gradients.v})
      std::ranges::fill(gradient->elements<T>(), T(0));
    return gradients;
  }
  const BackwardPass<T> pass(attention, grad, output, options, gradients);
  run_pieces(stream, static_cast<std::size_t>(attention.sizes().outer), pass.scratch_bytes(),
             [&](std::size_t outer, std::byte* memory) {
               pass.run(static_cast<std::int64_t>(outer), memory);
             });
  return gradients;
}

}  // namespace

AttentionOutput attention(const Stream& stream, const Tensor& q, const Tensor& k, const Tensor& v,
                          const Tensor& mask, const AttentionOptions& options) {
  return q.dtype() == DType::f64 ? attend<double>(stream, q, k, v, mask, options)
                                 : attend<float>(stream, q, k, v, mask, options);
}

AttentionGradients attention_backward(const Stream& stream, const Tensor& grad, const Tensor& q,
                                      const Tensor& k, const Tensor& v, const Tensor& mask,
                                      const AttentionOutput& output,
                                      const AttentionOptions& options) {
  return q.dtype() == DType::f64
             ? gradients_of<double>(stream, grad, q, k, v, mask, output, options)
             : gradients_of<float>(stream, grad, q, k, v, mask, output, options);
}

}  // namespace troupe::cpu
#endif

// Attention by parts that fit in a workspace: the scores of some of the outer matrices, or of some
// tokens of one, lie in memory as a whole between the products. Forward saves the logarithm of each
// token's sum, from which backward computes the shares again. Where tokens are split, the gradients
// of keys and values are added up in the order of the parts.

#include "ops/attention_sizes.h"
#include "ops/cuda/elements.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/layer_checks.h"
#include "ops/cuda/rows.h"
#include "ops/cuda/tile_product.h"
#include "ops/cuda/workspace.h"
#include "ops/gpu_sizes.h"

namespace troupe::cuda {
namespace {

#ifdef TROUPE_CUDA_EMULATOR
constexpr std::int64_t most_scores = 1 << 14;  // so that small tests have several parts
#else
constexpr std::int64_t most_scores = scores_of_a_part;
#endif

/// A mask that is broadcast to [..., tokens, keys].
template <class T>
struct Mask {
  static constexpr int max_outer = Shape::max_rank - 2;

  const T* data = nullptr;
  int outer = 0;  ///< axes
  std::int64_t sizes[max_outer] = {}, strides[max_outer] = {};
  std::int64_t token_stride = 0, key_stride = 0;

  /// The numbers of a token, key_stride apart.
  const __device__ T* row(std::int64_t matrix, std::int64_t token) const {
    if (!data) return nullptr;
    std::int64_t offset = token * token_stride;
#pragma unroll
    for (int axis = max_outer - 1; axis >= 0; --axis)
      if (axis < outer) {
        offset += matrix % sizes[axis] * strides[axis];
        matrix /= sizes[axis];
      }
    return data + offset;
  }
};

template <class T>
Mask<T> mask_of(const Stream& stream, const Tensor& mask, const Shape& q) {
  if (!mask.defined()) return {};
  check_mask("attention", mask, q);
  Mask<T> result{.data = input<T>(stream, mask), .outer = q.rank() - 2};
  std::int64_t stride = 1;
  for (int back = 1; back <= q.rank(); ++back) {  // axes from the last one on
    const std::int64_t size = back <= mask.rank() ? mask.dim(-back) : 1;
    const std::int64_t step = size == 1 ? 0 : stride;
    stride *= size;
    const int axis = q.rank() - back;
    if (back == 1) result.key_stride = step;
    if (back == 2) result.token_stride = step;
    if (back > 2) result.sizes[axis] = q[axis], result.strides[axis] = step;
  }
  return result;
}

/// What the rows of a part are: tokens of `count` of the outer matrices.
struct Part {
  std::int64_t outer, count;   ///< the first matrix, and how many
  std::int64_t first, tokens;  ///< of each of them
};

/// The rows of scores that a kernel of a part goes through, and what they are of.
template <class T>
struct ScoreRows {
  Part part;
  std::int64_t all_tokens, keys;
  bool causal;
  Mask<T> mask;
  T* scores;    ///< [count, tokens, keys]
  T* log_sums;  ///< [outer, all_tokens]

  __device__ std::int64_t rows() const { return part.count * part.tokens; }
  __device__ std::int64_t matrix(std::int64_t row) const { return part.outer + row / part.tokens; }
  __device__ std::int64_t token(std::int64_t row) const { return part.first + row % part.tokens; }
  /// Among the tokens of all matrices.
  __device__ std::int64_t place(std::int64_t row) const {
    return matrix(row) * all_tokens + token(row);
  }
  /// The keys that a row's token sees, the first ones.
  __device__ std::int64_t seen(std::int64_t row) const {
    return causal && token(row) + 1 < keys ? token(row) + 1 : keys;
  }
};

template <class T>
struct ScoreRow {
  const T *scores, *mask;
  std::int64_t mask_stride;

  __device__ ScoreRow(const ScoreRows<T>& s, std::int64_t row)
      : scores(s.scores + row * s.keys),
        mask(s.mask.row(s.matrix(row), s.token(row))),
        mask_stride(s.mask.key_stride) {}
  __device__ T operator()(std::int64_t key) const {
    return mask ? scores[key] + mask[key * mask_stride] : scores[key];
  }
};

/// Makes shares of the scores, and writes the logarithms of their sums.
template <class Team, class T>
__global__ void normalise_scores(ScoreRows<T> s) {
  for (std::int64_t row = Team::first_row(); row < s.rows(); row += Team::row_step()) {
    const ScoreRow<T> score(s, row);
    const std::int64_t seen = s.seen(row);
    T largest = -INFINITY, sum = 0;
    for (std::int64_t key = Team::rank(); key < seen; key += Team::size)
      largest = Larger{}(score(key), largest);
    largest = largest_of_team<Team>(largest);
    const bool none = largest == static_cast<T>(-INFINITY);  // no key is seen
    for (std::int64_t key = Team::rank(); key < seen; key += Team::size)
      sum += none ? T(0) : std::exp(score(key) - largest);
    const double total = sum_of_team<Team>(sum);
    const T factor = none ? T(0) : static_cast<T>(1 / total);
    for (std::int64_t key = Team::rank(); key < s.keys; key += Team::size)
      s.scores[row * s.keys + key] =
          key < seen && !none ? std::exp(score(key) - largest) * factor : T(0);
    if (Team::rank() == 0)
      s.log_sums[s.place(row)] = none ? largest : static_cast<T>(largest + std::log(total));
  }
}

template <class T>
struct BackwardRows {
  ScoreRows<T> s;
  T* slopes;          ///< [count, tokens, keys]
  const T *grad, *y;  ///< [outer, all_tokens, outputs]
  std::int64_t outputs;
};

/// Makes shares of the scores again, and of the slopes of the shares those of the scores:
/// share * (slope - mean), where the mean is grad y.
template <class Team, class T>
__global__ void score_gradients(BackwardRows<T> b) {
  const ScoreRows<T>& s = b.s;
  for (std::int64_t row = Team::first_row(); row < s.rows(); row += Team::row_step()) {
    const ScoreRow<T> score(s, row);
    const std::int64_t seen = s.seen(row), place = s.place(row);
    const T log_sum = s.log_sums[place];
    const bool none = log_sum == static_cast<T>(-INFINITY);
    T product = 0;
    for (std::int64_t i = Team::rank(); i < b.outputs; i += Team::size)
      product = std::fma(b.grad[place * b.outputs + i], b.y[place * b.outputs + i], product);
    const T mean = static_cast<T>(sum_of_team<Team>(product));
    // The logarithm is rounded, beside a mask of -1e38 to nothing: a row is divided by its own sum.
    T sum = 0;
    for (std::int64_t key = Team::rank(); key < seen; key += Team::size)
      sum += none ? T(0) : std::exp(score(key) - log_sum);
    const double total = sum_of_team<Team>(sum);
    const T factor = none ? T(0) : static_cast<T>(1 / total);
    for (std::int64_t key = Team::rank(); key < s.keys; key += Team::size) {
      const std::int64_t e = row * s.keys + key;
      const bool sees = key < seen && !none;
      const T share = sees ? std::exp(score(key) - log_sum) * factor : T(0);
      s.scores[e] = share;
      b.slopes[e] = sees ? share * (b.slopes[e] - mean) : T(0);
    }
  }
}

/// The tensors of an attention, and its parts.
template <class T>
class Attention {
 public:
  Attention(const Stream& stream, const Tensor& q, const Tensor& k, const Tensor& v,
            const Tensor& mask, const AttentionOptions& options)
      : stream_(stream),
        s_(q, k, v),
        options_(options),
        mask_(mask_of<T>(stream, mask, q.shape())),
        q_(input<T>(stream, q)),
        k_(input<T>(stream, k)),
        v_(input<T>(stream, v)) {}

  /// Calls `f(part)` for all parts, those of a matrix in the order of their tokens; also once if
  /// there is no token, since the gradients of keys and values are then zeroes.
  template <class F>
  void for_parts(F&& f) const {
    const std::int64_t keys = std::max<std::int64_t>(s_.keys, 1);
    const std::int64_t tokens = std::clamp<std::int64_t>(most_scores / keys / 64 * 64, 64,
                                                         std::max<std::int64_t>(s_.tokens, 64));
    const std::int64_t matrices = std::max<std::int64_t>(
        tokens < s_.tokens ? 1 : most_scores / keys / std::max<std::int64_t>(s_.tokens, 1), 1);
    for (std::int64_t outer = 0; outer < s_.outer; outer += matrices)
      for (std::int64_t first = 0; first == 0 || first < s_.tokens; first += tokens)
        f(Part{outer, std::min(matrices, s_.outer - outer), first,
               std::min(tokens, s_.tokens - first)});
  }

  /// Memory for the scores of a part.
  Tensor space(const Part& part) const {
    return workspace(stream_,
                     static_cast<std::size_t>(part.count * part.tokens * s_.keys) * sizeof(T));
  }

  void forward(const Part& part, T* y, T* log_sums) const {
    const Tensor memory = space(part);
    auto* scores = reinterpret_cast<T*>(memory.raw());
    compute_scores(part, scores);
    const ScoreRows<T> rows = rows_of(part, scores, log_sums);
    for_score_rows(part, [&]<class Team>(Team, const Launch& launch) {
      launch(normalise_scores<Team, T>, rows);
    });
    multiply(stream_,
             product(part, scores_of(part, scores), matrices(v_, part, s_.keys, s_.outputs),
                     tokens_of(y, part, s_.outputs), s_.outputs, 1.0));
  }

  struct Gradients {
    const T *grad, *y;
    T *log_sums, *q, *k, *v;
  };
  void backward(const Part& part, const Gradients& g) const {
    const Tensor score_memory = space(part), slope_memory = space(part);
    auto* scores = reinterpret_cast<T*>(score_memory.raw());
    auto* slopes = reinterpret_cast<T*>(slope_memory.raw());
    compute_scores(part, scores);
    multiply(stream_, by_keys(part, tokens_of(g.grad, part, s_.outputs),
                              matrices(v_, part, s_.keys, s_.outputs), slopes, s_.outputs, 1.0));
    const BackwardRows<T> rows{rows_of(part, scores, g.log_sums), slopes, g.grad, g.y, s_.outputs};
    for_score_rows(part, [&]<class Team>(Team, const Launch& launch) {
      launch(score_gradients<Team, T>, rows);
    });
    multiply(stream_,
             product(part, scores_of(part, slopes), matrices(k_, part, s_.keys, s_.features),
                     tokens_of(g.q, part, s_.features), s_.features, options_.scale));
    multiply(stream_, to_keys(part, scores, tokens_of(g.grad, part, s_.outputs),
                              matrices(g.v, part, s_.keys, s_.outputs), s_.outputs, 1.0));
    multiply(stream_,
             to_keys(part, slopes, tokens_of(q_, part, s_.features),
                     matrices(g.k, part, s_.keys, s_.features), s_.features, options_.scale));
  }

  const AttentionSizes& sizes() const { return s_; }

 private:
  /// The rows of the tokens of a part, of [outer, tokens, width].
  template <class X>
  Matrices<X> tokens_of(X* data, const Part& part, std::int64_t width) const {
    return {data + (part.outer * s_.tokens + part.first) * width, width, 1, s_.tokens * width};
  }
  /// All rows of the matrices of a part, of [outer, rows, width].
  template <class X>
  Matrices<X> matrices(X* data, const Part& part, std::int64_t rows, std::int64_t width) const {
    return {data + part.outer * rows * width, width, 1, rows * width};
  }
  template <class X>
  Matrices<X> scores_of(const Part& part, X* data) const {
    return {data, s_.keys, 1, part.tokens * s_.keys};
  }
  static Matrices<const T> to_read(const Matrices<T>& m) {
    return {m.data, m.row, m.column, m.matrix};
  }
  Unseen unless_causal(Unseen unseen) const { return options_.causal ? unseen : Unseen::none; }

  /// [tokens, width] times [keys, width] transposed.
  TileProduct<T> by_keys(const Part& part, const Matrices<const T>& tokens,
                         const Matrices<const T>& keys, T* to, std::int64_t width,
                         double alpha) const {
    return {.a = tokens,
            .b = keys.transposed(),
            .c = scores_of(part, to),
            .count = part.count,
            .m = part.tokens,
            .n = s_.keys,
            .k = width,
            .alpha = static_cast<T>(alpha),
            .unseen = unless_causal(Unseen::result),
            .first = part.first};
  }
  /// [tokens, keys] times [keys, width].
  TileProduct<T> product(const Part& part, const Matrices<T>& shares, const Matrices<const T>& keys,
                         const Matrices<T>& to, std::int64_t width, double alpha) const {
    return {.a = to_read(shares),
            .b = keys,
            .c = to,
            .count = part.count,
            .m = part.tokens,
            .n = width,
            .k = s_.keys,
            .alpha = static_cast<T>(alpha),
            .unseen = unless_causal(Unseen::rows_end),
            .first = part.first};
  }
  /// [tokens, keys] transposed times [tokens, width], which parts of the same matrix add up.
  TileProduct<T> to_keys(const Part& part, T* shares, const Matrices<const T>& tokens,
                         const Matrices<T>& to, std::int64_t width, double alpha) const {
    return {.a = to_read(scores_of(part, shares).transposed()),
            .b = tokens,
            .c = to,
            .count = part.count,
            .m = s_.keys,
            .n = width,
            .k = part.tokens,
            .alpha = static_cast<T>(alpha),
            .add = part.first > 0,
            .unseen = unless_causal(Unseen::begin),
            .first = part.first};
  }

  void compute_scores(const Part& part, T* scores) const {
    multiply(stream_, by_keys(part, tokens_of(q_, part, s_.features),
                              matrices(k_, part, s_.keys, s_.features), scores, s_.features,
                              options_.scale));
  }
  ScoreRows<T> rows_of(const Part& part, T* scores, T* log_sums) const {
    return {part, s_.tokens, s_.keys, options_.causal, mask_, scores, log_sums};
  }
  /// Also for tokens without keys.
  template <class F>
  void for_score_rows(const Part& part, F&& f) const {
    for_rows(stream_, part.count * part.tokens, std::max<std::int64_t>(s_.keys, 1), f);
  }

  const Stream& stream_;
  AttentionSizes s_;
  AttentionOptions options_;
  Mask<T> mask_;
  const T *q_, *k_, *v_;
};

}  // namespace

AttentionOutput attention(const Stream& stream, const Tensor& q, const Tensor& k, const Tensor& v,
                          const Tensor& mask, const AttentionOptions& options) {
  const AttentionSizes s(q, k, v);
  AttentionOutput to{result(stream, AttentionSizes::y_shape(q, v), q.dtype()),
                     result(stream, {s.outer, s.tokens}, q.dtype())};
  visit_float(q.dtype(), [&]<class T>(T) {
    const Attention<T> attention(stream, q, k, v, mask, options);
    T *y = output<T>(stream, to.y), *log_sums = output<T>(stream, to.saved);
    attention.for_parts([&](const Part& part) { attention.forward(part, y, log_sums); });
  });
  return to;
}

AttentionGradients attention_backward(const Stream& stream, const Tensor& grad, const Tensor& q,
                                      const Tensor& k, const Tensor& v, const Tensor& mask,
                                      const AttentionOutput& saved,
                                      const AttentionOptions& options) {
  check_alike("attention_backward", grad, saved.y);
  AttentionGradients to{result_like(stream, q), result_like(stream, k), result_like(stream, v)};
  visit_float(q.dtype(), [&]<class T>(T) {
    const Attention<T> attention(stream, q, k, v, mask, options);
    const typename Attention<T>::Gradients gradients{
        input<T>(stream, grad),  input<T>(stream, saved.y), output<T>(stream, saved.saved),
        output<T>(stream, to.q), output<T>(stream, to.k),   output<T>(stream, to.v)};
    attention.for_parts([&](const Part& part) { attention.backward(part, gradients); });
  });
  return to;
}

}  // namespace troupe::cuda

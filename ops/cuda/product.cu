#include "ops/cuda/blas.h"
#include "ops/cuda/elements.h"
#include "ops/cuda/numbers.h"
#include "ops/cuda/product.h"
#include "ops/cuda/tile_product.h"

namespace troupe::cuda {

void multiply(const Stream& stream, const Product& p, const Tensor& a, std::int64_t a_first,
              const Tensor& b, std::int64_t b_first, const Tensor& bias, const Tensor& y,
              std::int64_t y_first) {
  if (p.batches * p.rows * p.columns == 0) return;
  visit_stored(a.dtype(), [&]<class F, class T>(F, T) {
    const F *left = input<F>(stream, a) + a_first, *right = input<F>(stream, b) + b_first;
    const auto give = [&]<class Y>(Y) {
      const Y* added = input<Y>(stream, bias);
      Y* to = output<Y>(stream, y) + y_first;
      if (multiply_by_library(stream, p, {a.dtype(), y.dtype()}, left, right, added, to)) return;
      const Matrices<const F> as{left, p.transposed_a ? 1 : p.depth, p.transposed_a ? p.rows : 1,
                                 p.a_step};
      const Matrices<const F> bs{right, p.transposed_b ? 1 : p.columns,
                                 p.transposed_b ? p.depth : 1, p.b_step};
      multiply(stream, TileProduct<T, F, Y>{.a = as,
                                            .b = bs,
                                            .c = {to, p.columns, 1, p.rows * p.columns},
                                            .count = p.batches,
                                            .m = p.rows,
                                            .n = p.columns,
                                            .k = p.depth,
                                            .add = p.adds,
                                            .bias = added});
    };
    y.dtype() == a.dtype() ? give(F{}) : give(T{});
  });
}

}  // namespace troupe::cuda

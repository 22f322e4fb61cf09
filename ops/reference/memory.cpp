// Copying, filling, scaling and folding: one pass over memory without arithmetic to speak of. So
// the kernels of the CPU's f32 are these too: they take f32 as well as f64.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ops/reference/kernels.h"
#include "ops/reference/square_sum.h"
#include "runtime/error.h"
#include "runtime/tensor/cast.h"

namespace troupe::reference {
namespace {

void check_alike(const char* operation, const Tensor& from, const Tensor& to) {
  if (from.shape() == to.shape() && from.layout() == to.layout()) return;
  throw Error(ErrorCode::internal,
              fmt::format("{}: {} ({}) into {} ({})", operation, to_string(from.shape()),
                          name_of(from.layout()), to_string(to.shape()), name_of(to.layout())));
}

/// Calls visit with the elements, as f32 or f64.
template <class Visit>
void with_elements(const Tensor& tensor, Visit visit) {
  if (tensor.dtype() == DType::f64)
    visit(tensor.elements<double>());
  else
    visit(tensor.elements<float>());
}

}  // namespace

void copy(const Stream&, const Tensor& from, Tensor& to) {
  check_alike("copy", from, to);
  const Tensor converted = from.dtype() == to.dtype() ? from : cast(from, to.dtype());
  if (to.bytes() > 0) std::memcpy(to.raw(), converted.raw(), to.bytes());
}

void fill(const Stream&, double value, Tensor& to) {
  with_elements(to, [&]<class T>(std::span<T> elements) {
    std::ranges::fill(elements, static_cast<T>(value));
  });
}

void scale(const Stream&, const Tensor& from, double factor, Tensor& to) {
  check_alike("scale", from, to);
  with_elements(from, [&](auto source) {
    with_elements(to, [&]<class T>(std::span<T> target) {
      std::ranges::transform(source, target.begin(),
                             [&](double value) { return static_cast<T>(value * factor); });
    });
  });
}

void fold(const Stream&, const Tensor& observed, double momentum, Tensor& running) {
  check_alike("fold", observed, running);
  with_elements(running, [&]<class T>(std::span<T> values) {
    const T* seen = observed.data<T>();
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<T>((1.0 - momentum) * static_cast<double>(values[i]) +
                                 momentum * static_cast<double>(seen[i]));
  });
}

void square_sums(const Stream&, const std::vector<Tensor>& xs, Tensor& to) {
  auto* totals = to.data<double>();
  for (const Tensor& x : xs)
    *totals++ = square_sum_of(std::span<const double>(x.elements<double>()));
}

}  // namespace troupe::reference

// Copying, filling and folding: one pass over memory without arithmetic to speak of, so that the
// CPU's f32 table takes them from here too.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ops/reference/families.h"
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

void copy(const Stream&, const Tensor& from, Tensor& to) {
  check_alike("copy", from, to);
  const Tensor converted = from.dtype() == to.dtype() ? from : cast(from, to.dtype());
  if (to.bytes() > 0) std::memcpy(to.raw(), converted.raw(), to.bytes());
}

template <class T>
void fill(const Stream&, double value, Tensor& to) {
  std::fill_n(to.data<T>(), to.element_count(), static_cast<T>(value));
}

template <class From, class To>
void scale_as(const Tensor& from, double factor, Tensor& to) {
  const From* source = from.data<From>();
  To* target = to.data<To>();
  for (std::int64_t i = 0; i < to.element_count(); ++i)
    target[i] = static_cast<To>(static_cast<double>(source[i]) * factor);
}

template <class T>
void scale(const Stream&, const Tensor& from, double factor, Tensor& to) {
  check_alike("scale", from, to);
  from.dtype() == DType::f64 ? scale_as<double, T>(from, factor, to)
                             : scale_as<float, T>(from, factor, to);
}

template <class T>
void fold(const Stream&, const Tensor& observed, double momentum, Tensor& running) {
  check_alike("fold", observed, running);
  const T* seen = observed.data<T>();
  T* values = running.data<T>();
  for (std::int64_t i = 0; i < running.element_count(); ++i)
    values[i] = static_cast<T>((1.0 - momentum) * static_cast<double>(values[i]) +
                               momentum * static_cast<double>(seen[i]));
}

}  // namespace

template <class T>
void fill_memory(KernelTable& table) {
  table.copy = copy;
  table.fill = fill<T>;
  table.scale = scale<T>;
  table.fold = fold<T>;
}

template void fill_memory<float>(KernelTable&);
template void fill_memory<double>(KernelTable&);

}  // namespace troupe::reference

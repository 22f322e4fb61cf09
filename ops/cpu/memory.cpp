// One pass over memory, for which the reference's loops are fast enough.

#include "ops/cpu/kernels.h"
#include "ops/reference/kernels.h"

namespace troupe::cpu {

void copy(const Stream& stream, const Tensor& from, Tensor& to) {
  reference::copy(stream, from, to);
}

void fill(const Stream& stream, double value, Tensor& to) { reference::fill(stream, value, to); }

void scale(const Stream& stream, const Tensor& from, double factor, Tensor& to) {
  reference::scale(stream, from, factor, to);
}

void fold(const Stream& stream, const Tensor& observed, double momentum, Tensor& running) {
  reference::fold(stream, observed, momentum, running);
}

}  // namespace troupe::cpu

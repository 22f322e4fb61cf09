#include "ops/cpu/backend.h"

#include "ops/cpu/processor.h"
#include "ops/cpu/scratch.h"
#include "ops/cpu/table.h"
#include "ops/reference/table.h"

namespace troupe::cpu {

const Backend& backend() {
  static constexpr Backend all{.name = "cpu",
                               .kernels = [](DType dtype) -> const KernelTable* {
                                 if (dtype == DType::f32) return &table();
                                 if (dtype == DType::f64) return &reference::table<double>();
                                 return nullptr;
                               },
                               .fingerprint = arithmetic_of_this_processor,
                               .take_peak_request = Scratch::take_peak_request};
  return all;
}

}  // namespace troupe::cpu

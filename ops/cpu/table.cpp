#include "ops/cpu/table.h"

#include "ops/cpu/families.h"
#include "ops/reference/families.h"

namespace troupe::cpu {

const KernelTable& table() {
  static const KernelTable kernels = [] {
    KernelTable table{.backend = "cpu"};
    fill_average_pool(table);
    fill_batch_norm(table);
    fill_batch_norm_backward(table);
    fill_convolution(table);
    fill_dropout(table);
    fill_elementwise(table);
    fill_linear(table);
    fill_loss(table);
    fill_max_pool(table);
    fill_moments(table);
    reference::fill_memory<float>(table);
    fill_reorder(table);
    fill_sgd(table);
    return table;
  }();
  return kernels;
}

}  // namespace troupe::cpu

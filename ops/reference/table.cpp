#include "ops/reference/table.h"

#include "ops/reference/families.h"

namespace troupe::reference {

template <class T>
const KernelTable& table() {
  static const KernelTable kernels = [] {
    KernelTable table{.backend = "reference"};
    fill_batch_norm<T>(table);
    fill_convolution<T>(table);
    fill_elementwise<T>(table);
    fill_linear<T>(table);
    fill_loss<T>(table);
    fill_memory<T>(table);
    fill_pooling<T>(table);
    fill_reorder<T>(table);
    fill_sgd<T>(table);
    return table;
  }();
  return kernels;
}

template const KernelTable& table<float>();
template const KernelTable& table<double>();

}  // namespace troupe::reference

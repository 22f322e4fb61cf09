#pragma once
// The reference's kernels, a family a file: each fills the entries of the table that it computes,
// for float and for double. What an entry has to do is said in KernelTable.

#include "ops/kernels.h"

namespace troupe::reference {

template <class T>
void fill_batch_norm(KernelTable& table);
template <class T>
void fill_convolution(KernelTable& table);
template <class T>
void fill_elementwise(KernelTable& table);
template <class T>
void fill_linear(KernelTable& table);
template <class T>
void fill_loss(KernelTable& table);
template <class T>
void fill_memory(KernelTable& table);
template <class T>
void fill_pooling(KernelTable& table);
template <class T>
void fill_reorder(KernelTable& table);
template <class T>
void fill_sgd(KernelTable& table);

}  // namespace troupe::reference

#pragma once
// The f32 kernels of this CPU, a family a file: each fills the entries of the table that it
// computes. What an entry has to do is said in KernelTable.

#include "ops/kernels.h"

namespace troupe::cpu {

void fill_average_pool(KernelTable& table);
void fill_batch_norm(KernelTable& table);
void fill_batch_norm_backward(KernelTable& table);
void fill_convolution(KernelTable& table);
void fill_dropout(KernelTable& table);
void fill_elementwise(KernelTable& table);
void fill_linear(KernelTable& table);
void fill_loss(KernelTable& table);
void fill_max_pool(KernelTable& table);
void fill_moments(KernelTable& table);
void fill_reorder(KernelTable& table);
void fill_sgd(KernelTable& table);

}  // namespace troupe::cpu

#pragma once
// What a run gives to a GPU, without a GPU and without computing it: each kernel of KernelTable
// with the bytes of its tensors, its floating-point operations, and the kernels of CUDA that it
// launches.

#include <cstdint>
#include <vector>

#include "ops/kernels.h"
#include "tests/unit/actors/kernel_calls.h"

namespace troupe::recording {

/// Of one call.
struct Traffic {
  double bytes = 0;       ///< of tensors on the device, each read or written once
  double operations = 0;  ///< of products: a multiplication and an addition are two
};

/// Adds a line "kernel,launches,bytes,operations" to the file TROUPE_RECORD.
void add(const char* kernel, std::uint64_t launches, const Traffic& traffic);

void count(Traffic& traffic, const Tensor& tensor);
inline void count(Traffic&, const Stream&) {}
inline void count(Traffic& traffic, const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors) count(traffic, tensor);
}
inline void count(Traffic& traffic, const std::vector<MomentumUpdate>& updates) {
  for (const MomentumUpdate& u : updates)
    for (const Tensor* tensor :
         {&u.weights, &u.gradient, &u.momentum, &u.new_weights, &u.new_momentum})
      count(traffic, *tensor);
}
inline void count(Traffic& traffic, const std::vector<AdamUpdate>& updates) {
  for (const AdamUpdate& u : updates)
    for (const Tensor* tensor : {&u.weights, &u.gradient, &u.exp_avg, &u.exp_avg_sq, &u.new_weights,
                                 &u.new_exp_avg, &u.new_exp_avg_sq})
      count(traffic, *tensor);
}
// A type of which visit_tensors() does not know the tensors is an error of the compiler.
template <class T>
void count(Traffic& traffic, const T& argument) {
  testing::visit_tensors(argument, [&](const Tensor& tensor) { count(traffic, tensor); });
}

/// The kernels of ops/cuda, recorded.
const KernelTable& table();

}  // namespace troupe::recording

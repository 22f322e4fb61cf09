#pragma once
// What a run gives to a GPU, without a GPU and without computing it: each kernel of KernelTable
// with the bytes of its tensors, its floating-point operations, and the kernels of CUDA that it
// launches.

#include <cstdint>
#include <type_traits>
#include <vector>

#include "ops/kernels.h"

namespace troupe::recording {

/// Of one call.
struct Traffic {
  double bytes = 0;       ///< of tensors on the device, each read or written once
  double host_bytes = 0;  ///< of tensors in the CPU's memory: copies to and from the device
  double operations = 0;  ///< of products: a multiplication and an addition are two
};

/// Adds a line "kernel,launches,bytes,host_bytes,operations" to the file TROUPE_RECORD.
void add(const char* kernel, std::uint64_t launches, const Traffic& traffic);

void count(Traffic& traffic, const Tensor& tensor);
inline void count(Traffic& traffic, const ChannelMoments& m) {
  count(traffic, m.mean);
  count(traffic, m.variance);
  count(traffic, m.norm);
}
inline void count(Traffic& traffic, const NormEpilogue& e) { count(traffic, e.residual); }
inline void count(Traffic& traffic, const NormGradients& g) {
  for (const Tensor* tensor : {&g.x, &g.weight, &g.bias, &g.residual}) count(traffic, *tensor);
}
inline void count(Traffic& traffic, const LayerNormOutput& o) {
  for (const Tensor* tensor : {&o.y, &o.mean, &o.inverse_deviation}) count(traffic, *tensor);
}
inline void count(Traffic& traffic, const LossOutput& o) {
  count(traffic, o.totals);
  count(traffic, o.logits_grad);
}
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
inline void count(Traffic& traffic, const AttentionOutput& o) {
  count(traffic, o.y);
  count(traffic, o.saved);
}
inline void count(Traffic& traffic, const AttentionGradients& g) {
  for (const Tensor* tensor : {&g.q, &g.k, &g.v}) count(traffic, *tensor);
}
// What holds no tensor. A type that is not named here is an error of the compiler.
template <class T>
concept WithoutTensors = std::is_arithmetic_v<T> || std::is_enum_v<T> ||
    std::is_same_v<T, Stream> || std::is_same_v<T, Shape> || std::is_same_v<T, RandomKey> ||
    std::is_same_v<T, PoolOptions> || std::is_same_v<T, MatmulOptions> ||
    std::is_same_v<T, AttentionOptions> || std::is_same_v<T, ElementPlaces>;
template <WithoutTensors T>
void count(Traffic&, const T&) {}

/// The kernels of ops/cuda, recorded.
const KernelTable& table();

}  // namespace troupe::recording

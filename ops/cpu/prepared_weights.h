#pragma once
#include <deque>
#include <optional>

#include "ops/cpu/prepared_copy.h"

namespace troupe::cpu {

/// Row-major weights of f32, and copies of them in the orders that oneDNN primitives need, in f32
/// or rounded to bf16. A copy is created when a primitive first requests it, and updated once per
/// version.
class PreparedWeights {
 public:
  /// Takes these weights; does nothing while `version` stays the same.
  void use(const Tensor& weight, const Tensor& bias, std::uint64_t version);
  bool defined() const { return version_.has_value(); }

  const Tensor& bias() const { return bias_; }
  /// The weights in this order, valid until the next use(). If `order` is smaller than the weights,
  /// the part of them that begins at these indices.
  const void* in_order(const Stream& stream, const dnnl::memory::desc& order,
                       const dnnl::memory::dims& begin);

 private:
  struct Copy {
    dnnl::memory::desc order;
    dnnl::memory::dims begin;
    PreparedCopy fill;
    Tensor data;
    std::uint64_t version = 0;
  };

  Tensor weight_;
  Tensor bias_;
  std::optional<std::uint64_t> version_;
  std::uint64_t serial_ = 0;  ///< counts versions seen; a copy of an older serial is stale
  std::deque<Copy> copies_;
};

}  // namespace troupe::cpu

#pragma once
#include <list>
#include <mutex>

#include "ops/cpu/prepared_copy.h"
#include "runtime/tensor/tensor.h"

namespace troupe::cpu {

/// Copies `from`, f32, into `to`, f32 or bf16: the same shape in any two layouts. Throws
/// Error{bad_shape} for tensors of different shapes or other types.
void reorder(const Stream& stream, const Tensor& from, Tensor& to);

/// `tensor` itself if it has this layout already, else a copy that has it.
Tensor in_layout(const Stream& stream, const Tensor& tensor, Layout layout);
/// The same in f32 or, rounded in the same pass, in bf16.
Tensor in_layout(const Stream& stream, const Tensor& tensor, Layout layout, DType dtype);

/// Compiled reorders that no call uses now, the last used one in front. A call takes a reorder out
/// and gives it back, because it serves one call at a time. Thread-safe.
class ReorderPool {
 public:
  struct Prepared {
    Shape shape;
    Layout from;
    Layout to;
    int threads;
    DType dtype;  ///< of `to`
    PreparedCopy copy;
  };

  /// A list of one element, so that neither taking nor giving back allocates.
  std::list<Prepared> take(const Stream& stream, const Tensor& from, const Tensor& to);
  void give_back(std::list<Prepared> taken);

 private:
  std::mutex mutex_;
  std::list<Prepared> free_;
};

}  // namespace troupe::cpu

#pragma once
#include <memory>

#include "runtime/tensor/tensor.h"
#include "runtime/work.h"

namespace troupe {

/// A tensor to receive.
class Receive : public Work {
 public:
  /// The received tensor. Throws unless the work has ended with success. It is read-only: it may be
  /// in memory of the sender, which reuses the memory when the last tensor of this Storage is
  /// dropped.
  Tensor tensor() const;

  bool deliver(Tensor tensor);  ///< for transports: the success

 private:
  Tensor tensor_;
};

using ReceivePtr = std::shared_ptr<Receive>;

}  // namespace troupe

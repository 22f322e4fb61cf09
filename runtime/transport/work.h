#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/error.h"
#include "runtime/tensor/tensor.h"

namespace troupe {

/// An operation of a transport. It ends once, with success or an error. Thread-safe. A Work may
/// outlive its Communicator, whose destructor ends it.
class Work {
 public:
  virtual ~Work() = default;
  Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  bool done() const;
  /// How it ended. Throws Error{internal} before the end.
  Status status() const;
  /// Calls `next` once, at the end: on a thread of the transport or on one that delivers pending
  /// arrivals (DeliveryDeferral), or at once if the work has ended. It must not block, throw,
  /// or destroy the Communicator; it may start other work.
  void then(std::function<void(const Status&)> next);

  /// For transports: ends the work. Only the first call has an effect, and returns true.
  bool finish(Status status) { return finish(std::move(status), {}); }

 protected:
  /// The same; `store` runs before the end is visible.
  bool finish(Status status, const std::function<void()>& store);

 private:
  mutable std::mutex mutex_;
  std::optional<Status> status_;
  std::vector<std::function<void(const Status&)>> next_;
};

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

using WorkPtr = std::shared_ptr<Work>;
using ReceivePtr = std::shared_ptr<Receive>;

}  // namespace troupe

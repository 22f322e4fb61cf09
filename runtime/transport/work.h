#pragma once
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/error.h"
#include "runtime/tensor/tensor.h"

namespace troupe {

/// Something under way on a transport: it ends once, well or with the weather that stopped it.
/// Thread-safe. A Work may outlive its Communicator, which ends it at the latest when it goes.
class Work {
 public:
  virtual ~Work() = default;
  Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  bool done() const;
  /// Blocks until the end. There is no time limit: a lost or hung peer is for the control plane to
  /// find, whose Communicator::abort() ends every wait.
  Status wait();
  /// `next` is called once at the end, on a thread of the transport or of who catches up; at once,
  /// by the caller, if the end is past. It must not block, throw, or destroy the Communicator; it
  /// may start other work.
  void then(std::function<void(const Status&)> next);

  /// For transports: the end. Only the first one counts; says whether this was it.
  bool finish(Status status) { return finish(std::move(status), {}); }

 protected:
  /// As above; `store` runs before anybody can see the end.
  bool finish(Status status, const std::function<void()>& store);

 private:
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<Status> status_;
  std::vector<std::function<void(const Status&)>> next_;
};

/// A tensor on its way here.
class Receive : public Work {
 public:
  /// What came. Throws unless the end was good. Read-only for its holder: it may be the sender's
  /// own memory (local) or a slot of it (shared memory), which goes back to the sender when the
  /// last tensor that looks at this Storage is dropped.
  Tensor tensor() const;

  bool deliver(Tensor tensor);  ///< for transports: the good end

 private:
  Tensor tensor_;
};

using WorkPtr = std::shared_ptr<Work>;
using ReceivePtr = std::shared_ptr<Receive>;

}  // namespace troupe

#pragma once
// Inside the transports: a receive that waits at an Inbox.

#include <utility>

#include "runtime/transport/communicator_base.h"
#include "runtime/transport/inbox.h"

namespace troupe::transport {

/// Ends a receive with the tensor that arrives. An Arrival has a `meta` and a `tensor()`.
template <class Arrival>
class ReceiveWaiter final : public Inbox<Arrival>::Waiter {
 public:
  ReceiveWaiter(CommunicatorBase& communicator, int from, std::uint64_t tag, TensorMeta meta,
                ReceivePtr receive)
      : communicator_(communicator),
        from_(from),
        tag_(tag),
        meta_(meta),
        receive_(std::move(receive)) {}

  void arrived(Arrival arrival) override {
    if (arrival.meta.fits(meta_))
      receive_->deliver(arrival.tensor());
    else
      communicator_.fail(communicator_.misfit(from_, tag_, arrival.meta, meta_));
  }
  void failed(const Error& error) override { receive_->finish(error); }

 private:
  CommunicatorBase& communicator_;
  const int from_;
  const std::uint64_t tag_;
  const TensorMeta meta_;
  const ReceivePtr receive_;
};

}  // namespace troupe::transport

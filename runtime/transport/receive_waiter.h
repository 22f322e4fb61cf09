#pragma once
// Inside the transports: a receive that waits at an Inbox.

#include <utility>

#include "runtime/transport/endpoint.h"
#include "runtime/transport/inbox.h"

namespace troupe::transport {

/// Ends a receive with the tensor that arrives. An Arrival has a `meta` and a `tensor()`.
template <class Arrival>
class ReceiveWaiter final : public Inbox<Arrival>::Waiter {
 public:
  ReceiveWaiter(Endpoint& endpoint, int from, std::uint64_t tag, TensorMeta meta,
                ReceivePtr receive)
      : endpoint_(endpoint), from_(from), tag_(tag), meta_(meta), receive_(std::move(receive)) {}

  void arrived(Arrival arrival) override {
    if (arrival.meta.fits(meta_))
      receive_->deliver(arrival.tensor());
    else
      endpoint_.fail(endpoint_.misfit(from_, tag_, arrival.meta, meta_));
  }
  void failed(const Error& error) override { receive_->finish(error); }

 private:
  Endpoint& endpoint_;
  const int from_;
  const std::uint64_t tag_;
  const TensorMeta meta_;
  const ReceivePtr receive_;
};

}  // namespace troupe::transport

#pragma once
// Inside the transports: those who wait at an Inbox.

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/transport/endpoint.h"
#include "runtime/transport/inbox.h"

namespace troupe::transport {

/// Turns an arrival into the end of a receive. An Arrival has a `meta` and a `tensor()`.
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

/// An arrival to block for.
template <class Arrival>
class Awaited final : public Inbox<Arrival>::Waiter {
 public:
  void arrived(Arrival arrival) override { end(Result<Arrival>(std::move(arrival))); }
  void failed(const Error& error) override { end(Result<Arrival>(error)); }

  /// Throws the error that came instead. May be called once.
  Arrival get() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return end_.has_value(); });
    return std::move(end_->value());
  }

 private:
  void end(Result<Arrival> end) {
    const std::lock_guard lock(mutex_);
    end_ = std::move(end);
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Result<Arrival>> end_;
};

/// The calls of one collective at all ranks. An Arrival has a `call`.
template <class Arrival>
class CallsOfRanks {
 public:
  CallsOfRanks(Endpoint& endpoint, Inbox<Arrival>& inbox, std::uint64_t tag, CollectiveCall call)
      : endpoint_(endpoint), tag_(tag), call_(call) {
    for (int peer = 0; peer < endpoint.size(); ++peer) {
      awaited_.push_back(std::make_shared<Awaited<Arrival>>());
      if (peer != endpoint.rank())
        inbox.expect({peer, InboxKey::Kind::collective, tag}, awaited_.back());
    }
  }

  /// Waits for all; throws if one differs. By rank, nothing for this one.
  std::vector<Arrival> meet() {
    std::vector<Arrival> calls(awaited_.size());
    for (int peer = 0; peer < endpoint_.size(); ++peer) {
      if (peer == endpoint_.rank()) continue;
      Arrival& arrival = calls[static_cast<std::size_t>(peer)];
      arrival = awaited_[static_cast<std::size_t>(peer)]->get();
      if (!arrival.call.fits(call_)) throw endpoint_.misfit(peer, tag_, arrival.call, call_);
    }
    return calls;
  }

 private:
  Endpoint& endpoint_;
  const std::uint64_t tag_;
  const CollectiveCall call_;
  std::vector<std::shared_ptr<Awaited<Arrival>>> awaited_;
};

}  // namespace troupe::transport

#pragma once
// Inside the Gloo transport: the communicator itself.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "runtime/transport/communicator_base.h"
#include "runtime/transport/gloo/mesh.h"
#include "runtime/transport/gloo/side_channel.h"
#include "runtime/transport/inbox.h"

namespace troupe::transport {

using GlooBuffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

struct GlooArrival {
  TensorMeta meta;
  std::uint64_t id = 0;
  Tensor small;  ///< defined if the offer contained it
};

/// A send is an offer on the side channel and the bytes of the tensor. Gloo moves the bytes once
/// the receiver has posted a buffer with the same match number, so nothing is buffered on the way
/// except tensors that fit into the offer. The number is made of tag and description: a receive
/// with the wrong description never matches. The offer is matched by tag alone, which reveals the
/// mistake. One thread receives all control messages, and one thread for each peer waits for the
/// bytes of offered tensors, in their order.
class GlooCommunicator final : public CommunicatorBase {
 public:
  GlooCommunicator(const TransportGroup& group, std::unique_ptr<Mesh> mesh,
                   std::unique_ptr<SideChannel> side_channel);
  ~GlooCommunicator() override;

  struct Receiving {
    std::uint64_t id = 0;
    Tensor tensor;
    GlooBuffer buffer;  ///< none if the bytes are in the offer, or the connection is gone
    ReceivePtr receive;
  };
  /// An offer has matched a receive.
  void accept(int from, GlooArrival offer, Receiving receiving);

  /// Keeps a buffer that Gloo may still access until the connections are cut.
  void retire(Receiving receiving);

 private:
  struct Sending {
    Tensor tensor;
    std::shared_ptr<gloo::transport::UnboundBuffer> buffer;
    WorkPtr work;
  };
  struct Peer {
    std::mutex mutex;
    std::uint64_t next_id = 0;
    std::map<std::uint64_t, Sending> sending;  ///< by id, until the receiver has acknowledged
    std::deque<Receiving> receiving;           ///< in the order in which they matched their offers
    std::condition_variable changed;           ///< receiving, left, interrupted_
    int unacknowledged = 0;  ///< tensors delivered here, not yet acknowledged to the sender
    std::condition_variable acknowledged;
    /// Keeps offers and their bytes in the same order. Not the mutex above: Gloo writes before it
    /// returns, and messages that arrive meanwhile need that one.
    std::mutex offering;
    std::mutex posting;  ///< keeps buffers in the order of receives
    std::optional<Error> left;
    std::thread collector;
  };

  void start_send(int to, std::uint64_t tag, const Tensor& tensor, const WorkPtr& work) override;
  void start_receive(int from, std::uint64_t tag, const TensorMeta& meta,
                     const ReceivePtr& receive) override;
  void interrupt(const Error& error) override;
  void warn(int peer, const Error& error) override;

  void send_whole(int to, std::uint64_t tag, const Tensor& tensor, const WorkPtr& work);
  void wait_for_receipts(Peer& peer);
  /// False: the rank sends nothing more.
  bool on_message(int rank, const ControlMessage& message, SideChannel::Text text);
  void end_send(int rank, std::uint64_t id);
  void collect(int rank);
  std::optional<Receiving> collect_one(int rank);
  void deliver(int rank, Receiving came);
  void leave(int rank);
  Error gone(int rank, const std::exception& error) const;
  /// The error of an operation that Gloo failed: that of the communicator, or that of the peer.
  /// Gloo may notice the end of a connection before the reason arrives on the side channel: this
  /// waits for the reason.
  Error failed(int peer, const std::exception& error);
  void on_lost(int rank, const std::exception& error);
  void start();
  void join();
  Peer& at(int rank) { return *peers_[static_cast<std::size_t>(rank)]; }

  std::unique_ptr<Mesh> mesh_;
  std::unique_ptr<SideChannel> side_channel_;
  std::vector<std::unique_ptr<Peer>> peers_;
  Inbox<GlooArrival> inbox_;
  std::atomic<bool> interrupted_ = false;
  std::mutex retired_mutex_;
  std::vector<Receiving> retired_;
};

/// Whether an offer can contain the tensor.
inline bool fits_an_offer(const TensorMeta& meta) {
  return meta.bytes() <= SideChannel::max_text_bytes;
}

/// The number by which Gloo matches a send with a receive (its `slot`). Two descriptions of one tag
/// have the same number once in 2^62 times.
std::uint64_t match_number(std::uint64_t tag, const TensorMeta& meta);

}  // namespace troupe::transport

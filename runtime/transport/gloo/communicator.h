#pragma once
// Inside the Gloo transport: the communicator itself.

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <thread>

#include "runtime/transport/gloo/mesh.h"
#include "runtime/transport/waiters.h"

namespace troupe::transport {

using GlooBuffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

/// A message of fixed size, so that it fits the buffer that waits for it: Gloo ends a process whose
/// buffer is too small. Between processes of one build, as they are.
struct ControlMessage {
  enum class Kind : std::uint8_t { hello = 1, offer, done, call, warning, goodbye };
  Kind kind = Kind::hello;
  std::uint8_t dtype = 0, layout = 0, rank = 0;
  std::int32_t number = 0;  ///< of a call: its root; of a warning: the ErrorCode
  std::uint8_t call = 0;    ///< kind of a collective
  std::uint64_t tag = 0;    ///< of an offer or a call
  std::uint64_t id = 0;     ///< of an offered tensor; of a call: under which its pieces come
  std::uint64_t seen = 0;   ///< how many messages the sender has had from the receiver
  std::array<std::int64_t, 6> dims{};
  /// Of hello and warning: a text; of an offer: the tensor itself, if it is so small.
  std::array<char, 416> text{};
};

struct GlooArrival {
  TensorMeta meta;      ///< of an offer
  CollectiveCall call;  ///< of a collective
  std::uint64_t id = 0;
  Tensor small;  ///< of an offer that holds it
};

/// A send is an offer (a small message) and its bytes, which Gloo moves once the receiver has
/// posted a buffer under the same slot: nothing is buffered on the way but what fits into the
/// offer. Slots are made of tag and description, so a buffer that does not fit is never met; the
/// offer, met by tag alone, shows the mistake. Two threads a peer: one for messages, one that waits
/// for the bytes of what was offered and received, in that order.
class GlooCommunicator final : public Endpoint {
 public:
  GlooCommunicator(int rank, int size, std::unique_ptr<Mesh> mesh);
  ~GlooCommunicator() override;

  std::string name() const override { return "gloo"; }

  struct Receiving {
    std::uint64_t id = 0;
    GlooBuffer buffer;  ///< none if the bytes are in the offer, or the connection is gone
    Tensor tensor;
    ReceivePtr receive;
  };
  /// An offer has met its receive.
  void accept(int from, GlooArrival offer, Receiving receiving);

  // For exchanges.
  Mesh& mesh() { return *mesh_; }
  Inbox<GlooArrival>& inbox() { return inbox_; }
  void tell_call(int to, std::uint64_t tag, std::uint64_t stream, const CollectiveCall& call);
  /// Keeps what Gloo may still look at until the connections are gone.
  void bury(std::vector<GlooBuffer> buffers, std::vector<Tensor> tensors);
  void bury(Receiving receiving);
  /// The error of an operation that Gloo failed: that of the communicator, or that of the peer.
  Error failed(int peer, const std::exception& error) const;

 private:
  struct Sending {
    GlooBuffer buffer;
    Tensor tensor;
    WorkPtr work;
  };
  struct Message {
    std::unique_ptr<ControlMessage> content;
    GlooBuffer buffer;
  };
  struct Heard {
    ControlMessage content;
    GlooBuffer buffer;
    std::string gone;  ///< why it is not awaited any more
  };
  struct Peer {
    std::mutex mutex;
    std::uint64_t next_id = 0;
    std::map<std::uint64_t, Sending> sending;  ///< by id, until the receiver says done
    std::deque<Message> said;                  ///< until the peer has seen them
    std::uint64_t said_and_seen = 0;           ///< messages no longer in `said`
    std::atomic<std::uint64_t> heard = 0;
    std::deque<Receiving> receiving;  ///< in the order in which they met their offers
    std::condition_variable met;
    int owed = 0;  ///< tensors that are delivered before the sender is told so
    std::condition_variable paid;
    std::mutex posting;  ///< so that buffers are posted in the order of receives
    std::optional<Error> left;
    std::array<Heard, 8> messages;  ///< what is heard next, in turns
    std::thread listener, collector;
  };

  void start_send(int to, std::uint64_t tag, const Tensor& tensor, const WorkPtr& work) override;
  void start_receive(int from, std::uint64_t tag, const TensorMeta& meta,
                     const ReceivePtr& receive) override;
  std::unique_ptr<Exchange> open_exchange(std::uint64_t tag, const CollectiveCall& call,
                                          const Tensor& in, const Tensor& out) override;
  void interrupt(const Error& error) override;
  void warn(int peer, const Error& error) override;

  void say(Peer& peer, int rank, const ControlMessage& message);  ///< its mutex is held
  void pay(Peer& peer);
  void tell(int rank, const ControlMessage& message);
  void listen(int rank);
  void await_message(int rank, std::size_t turn);
  bool hear(int rank, const ControlMessage& message);  ///< false: the last one
  void forget_seen(Peer& peer, std::uint64_t seen);
  void end_send(Peer& peer, std::uint64_t id);
  void collect(int rank);
  void deliver(int rank, Receiving came);
  void leave(int rank);
  void lose(int rank, const std::exception& error);
  void say_last(int rank, const ControlMessage& message, std::chrono::milliseconds patience);
  Peer& at(int rank) { return *peers_[static_cast<std::size_t>(rank)]; }

  std::unique_ptr<Mesh> mesh_;
  std::vector<std::unique_ptr<Peer>> peers_;
  Inbox<GlooArrival> inbox_;
  std::atomic<std::uint64_t> next_stream_ = 0;
  std::atomic<bool> interrupted_ = false;
  std::mutex grave_mutex_;
  std::vector<GlooBuffer> buried_buffers_;
  std::vector<Tensor> buried_tensors_;
};

// Slots: what Gloo matches by. Control messages have slot 0.
constexpr std::uint64_t control_slot = 0;
/// Two descriptions under one tag share a slot once in 2^62 times.
std::uint64_t tensor_slot(std::uint64_t tag, const TensorMeta& meta);
constexpr std::uint64_t piece_slot(std::uint64_t stream) {
  return (std::uint64_t{2} << 62) | stream;
}

std::unique_ptr<Exchange> make_gloo_exchange(GlooCommunicator& owner, std::uint64_t tag,
                                             std::uint64_t stream, const CollectiveCall& call,
                                             const Tensor& in, const Tensor& out);

}  // namespace troupe::transport

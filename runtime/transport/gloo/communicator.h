#pragma once
// Inside the Gloo transport: the communicator itself.

#include <atomic>
#include <deque>
#include <map>
#include <thread>

#include "runtime/transport/endpoint.h"
#include "runtime/transport/gloo/mesh.h"
#include "runtime/transport/gloo/words.h"
#include "runtime/transport/inbox.h"

namespace troupe::transport {

using GlooBuffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

struct GlooArrival {
  TensorMeta meta;
  std::uint64_t id = 0;
  Tensor small;  ///< defined if the offer contained it
};

/// A send is an offer (a word) and its bytes, which Gloo moves once the receiver has posted a
/// buffer under the same slot: nothing is buffered on the way but what fits into the offer. Slots
/// are made of tag and description, so a buffer that does not fit is never met; the offer, met by
/// tag alone, shows the mistake. A thread hears all words, and one a peer waits for the bytes of
/// what was offered and received, in that order.
class GlooCommunicator final : public Endpoint {
 public:
  GlooCommunicator(int rank, int size, std::unique_ptr<Mesh> mesh, std::unique_ptr<Words> words);
  ~GlooCommunicator() override;

  std::string name() const override { return "gloo"; }

  struct Receiving {
    std::uint64_t id = 0;
    Tensor tensor;
    GlooBuffer buffer;  ///< none if the bytes are in the offer, or the connection is gone
    ReceivePtr receive;
  };
  /// An offer has met its receive.
  void accept(int from, GlooArrival offer, Receiving receiving);

  /// Keeps what Gloo may look at until the connections are cut.
  void bury(Receiving receiving);
  /// The error of an operation that Gloo failed: that of the communicator, or that of the peer.
  /// Gloo may find a connection's end before the words are heard that say why: waits for those.
  Error failed(int peer, const std::exception& error);

 private:
  struct Sending {
    Tensor tensor;
    std::shared_ptr<gloo::transport::UnboundBuffer> buffer;
    WorkPtr work;
  };
  struct Peer {
    std::mutex mutex;
    std::uint64_t next_id = 0;
    std::map<std::uint64_t, Sending> sending;  ///< by id, until the receiver says done
    std::deque<Receiving> receiving;           ///< in the order in which they met their offers
    std::condition_variable met;               ///< or left, or interrupted
    int owed = 0;  ///< tensors that are delivered before the sender is told so
    std::condition_variable paid;
    /// So that offers and their bytes go in the same order. Not the mutex above: Gloo writes before
    /// it returns, and what is heard meanwhile needs that one.
    std::mutex offering;
    std::mutex posting;  ///< so that buffers are posted in the order of receives
    std::optional<Error> left;
    std::thread collector;
  };

  void start_send(int to, std::uint64_t tag, const Tensor& tensor, const WorkPtr& work) override;
  void start_receive(int from, std::uint64_t tag, const TensorMeta& meta,
                     const ReceivePtr& receive) override;
  void interrupt(const Error& error) override;
  void warn(int peer, const Error& error) override;

  void send_whole(int to, std::uint64_t tag, const Tensor& tensor, const WorkPtr& work);
  void pay(Peer& peer);
  bool hear(int rank, const Word& word, Words::Text text);  ///< false: the last one
  void end_send(int rank, std::uint64_t id);
  void collect(int rank);
  std::optional<Receiving> collect_one(int rank);
  void deliver(int rank, Receiving came);
  void leave(int rank);
  Error gone(int rank, const std::exception& error) const;
  void lose(int rank, const std::exception& error);
  void start();
  void join();
  Peer& at(int rank) { return *peers_[static_cast<std::size_t>(rank)]; }

  std::unique_ptr<Mesh> mesh_;
  std::unique_ptr<Words> words_;
  std::vector<std::unique_ptr<Peer>> peers_;
  Inbox<GlooArrival> inbox_;
  std::atomic<bool> interrupted_ = false;
  std::mutex grave_mutex_;
  std::vector<Receiving> grave_;
};

/// Whether a tensor goes whole with its offer.
inline bool fits_an_offer(const TensorMeta& meta) { return meta.bytes() <= Words::longest_text; }

/// The number by which Gloo matches a send with a receive (its `slot`). Two descriptions of one tag
/// have the same number once in 2^62 times.
std::uint64_t match_number(std::uint64_t tag, const TensorMeta& meta);

}  // namespace troupe::transport

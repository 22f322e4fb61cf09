#pragma once
// Inside the shared-memory transport: the communicator itself.

#include <atomic>
#include <deque>
#include <map>
#include <set>
#include <thread>

#include "runtime/transport/endpoint.h"
#include "runtime/transport/inbox.h"
#include "runtime/transport/shm/arena.h"
#include "runtime/transport/shm/wire.h"

namespace troupe::transport {

/// A block of a peer in use here; given back when the last handle is dropped.
class Slot {
 public:
  Slot(std::shared_ptr<const Segment> segment, BlockHeader& header, std::shared_ptr<Wire> wire)
      : segment_(std::move(segment)), header_(header), wire_(std::move(wire)) {}
  ~Slot() {
    header_.holders.fetch_sub(1, std::memory_order_release);
    wire_->ring_for_room();
  }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

 private:
  std::shared_ptr<const Segment> segment_;
  BlockHeader& header_;
  std::shared_ptr<Wire> wire_;
};

struct ShmArrival {
  TensorMeta meta;
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<Slot> slot;

  Tensor tensor() const;
};

/// One thread an endpoint reads the rings and sockets of all peers and sends what had to wait; it
/// sleeps in poll(2) while there is nothing. Senders copy and write rings themselves. Between
/// defer_delivery() and deliver_pending() nobody rings for it, and who catches up reads the rings.
class ShmCommunicator final : public Endpoint {
 public:
  ShmCommunicator(int rank, std::vector<std::shared_ptr<Wire>> wires, Fd bell,
                  std::size_t memory_limit);
  ~ShmCommunicator() override;

  std::string name() const override { return "shm"; }
  void defer_delivery() override;
  void deliver_pending() override;

 private:
  struct Waiting {  ///< for room in the arena
    std::uint64_t tag = 0;
    Tensor tensor;
    WorkPtr work;
  };
  struct Ready {  ///< copied, waits for a place in the ring
    Descriptor descriptor;
    std::optional<Block> block;
    WorkPtr work;
  };
  struct Peer {
    explicit Peer(std::shared_ptr<Wire> to_it)
        : wire(std::move(to_it)), writer(wire->outgoing()), reader(wire->incoming()) {}

    std::shared_ptr<Wire> wire;
    std::mutex mutex;  ///< of what follows, the sending half
    RingWriter writer;
    std::set<std::uint32_t> announced;  ///< segments that the peer knows
    std::deque<Ready> ready;
    std::deque<Waiting> waiting;
    std::atomic<bool> backlog = false;      ///< ready or waiting have content
    std::atomic<bool> socket_full = false;  ///< a note waits
    std::vector<std::uint32_t> retired;     ///< segments that the peer is to be told of
    std::atomic<bool> ring_damaged = false;
    std::optional<Error> left;

    // With receiving_ held, the receiving half.
    RingReader reader;
    std::map<std::uint32_t, std::shared_ptr<const Segment>> segments;
    bool hung_up = false;
  };
  struct Ends {  ///< of works, found with a mutex held and told without it
    std::vector<WorkPtr> done, lost;
    std::optional<Error> error;  ///< of those lost
    void tell() const;
  };

  void start_send(int to, std::uint64_t tag, const Tensor& tensor, const WorkPtr& work) override;
  void start_receive(int from, std::uint64_t tag, const TensorMeta& meta,
                     const ReceivePtr& receive) override;
  void interrupt(const Error& error) override;
  void warn(int peer, const Error& error) override;

  // Sending, with the peer's mutex held.
  bool place(Peer& peer, const Waiting& send, Ends& ends);  ///< false: no room
  bool announce(Peer& peer, const Segment& segment);        ///< false: the socket is full
  bool write(Peer& peer, Ready& ready, Ends& ends);         ///< false: the ring is full
  void push(Peer& peer, Ready ready, Ends& ends);           ///< now, or when there is place
  Ends drop_backlog(Peer& peer, const Error& error);

  bool flush(int rank);  ///< sends what waited; whether anything could be
  void retire_segments();

  // The engine.
  void serve();
  bool look();  ///< reads rings, sends what waited; whether there was anything to do
  void raise_flags(std::uint32_t sleeping);
  void sleep();       ///< until there is something to do
  void await_news();  ///< from the bell or a socket
  bool drain(int rank);
  void handle(int rank, const Descriptor& descriptor);
  std::shared_ptr<Slot> open_slot(int rank, const Descriptor& descriptor, const std::byte*& data);
  TensorMeta meta_in(int rank, const Descriptor& descriptor) const;
  void read_notes(int rank);
  void handle(int rank, Note note);
  void hang_up(int rank, const Error& error, bool lost);
  void kick();
  Error damaged(int rank, const std::string& what) const;
  Peer* at(int rank) const { return peers_[static_cast<std::size_t>(rank)].get(); }

  Fd bell_;
  Arena arena_;
  std::vector<std::unique_ptr<Peer>> peers_;  ///< this rank's is null
  Inbox<ShmArrival> inbox_;
  std::mutex receiving_;
  std::mutex attention_;   ///< of the flags that say whether peers are to ring
  bool may_wait_ = false;  ///< what arrives: nobody here is free for it
  std::atomic<bool> interrupted_ = false, stopping_ = false;
  std::thread engine_;
};

}  // namespace troupe::transport

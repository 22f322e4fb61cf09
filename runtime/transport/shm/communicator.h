#pragma once
// Inside the shared-memory transport: the communicator itself.

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/transport/communicator_base.h"
#include "runtime/transport/inbox.h"
#include "runtime/transport/shm/receiver.h"
#include "runtime/transport/shm/sender.h"

namespace troupe::transport {

/// Threads that send copy the tensor and write the ring themselves. One thread, the receiving
/// thread, reads the rings and sockets of all peers and flushes what waits for room; it sleeps in
/// poll(2) while there is nothing to do. While deliveries are deferred, peers do not wake it for
/// tensors, and deliver_pending() reads the rings on the calling thread.
class ShmCommunicator final : public CommunicatorBase, DeliveryDeferral::Arrivals {
 public:
  ShmCommunicator(const TransportGroup& group,
                  std::vector<std::shared_ptr<PeerConnection>> connections, Fd bell);
  ~ShmCommunicator() override;

 private:
  struct Peer {
    std::shared_ptr<PeerConnection> connection;
    ShmSender sender;
    ShmReceiver receiver;  ///< with receiving_ held
    bool hung_up = false;  ///< with receiving_ held: it sends nothing more
  };

  void start_send(int to, std::uint64_t tag, const Tensor& tensor, const WorkPtr& work) override;
  void start_receive(int from, std::uint64_t tag, const TensorMeta& meta,
                     const ReceivePtr& receive) override;
  void interrupt(const Error& error) override;
  void warn(int peer, const Error& error) override;
  void defer_delivery() override;
  void deliver_pending() override;

  void serve();
  bool look();  ///< reads the rings and flushes the senders; whether there was anything to do
  void sleep();
  void wait_for_event();  ///< of the bell or a socket
  void raise_flags(std::uint32_t sleeping);
  void wake_engine();
  bool drain(int rank);  ///< takes the tensors in the ring; whether there was one
  void read_signals(int rank);
  void handle(int rank, const Signal& signal);
  Peer* at(int rank) const { return peers_[static_cast<std::size_t>(rank)].get(); }

  Fd bell_;
  DeliveryDeferral* const deferral_;
  Arena arena_;
  std::vector<std::unique_ptr<Peer>> peers_;  ///< null for this rank
  Inbox<ShmArrival> inbox_;
  std::mutex receiving_;
  std::mutex attention_;   ///< of the flags that ask peers to ring
  bool may_wait_ = false;  ///< between defer_delivery() and deliver_pending()
  std::atomic<bool> interrupted_ = false, stopping_ = false;
  std::thread engine_;
};

}  // namespace troupe::transport

#pragma once
// Internal to the runtime: the messages that arrive from one process.

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/remote/data_plane.h"
#include "runtime/remote/flow_wire.h"

namespace troupe::remote {

/// Delivers the messages of one process in the order of sending: a message waits until its tensors
/// are here, and later messages wait for it. Thread-safe.
class PeerInbox : public std::enable_shared_from_this<PeerInbox> {
 public:
  PeerInbox(std::uint32_t from, DataPlane& data_plane, const Graph& graph)
      : from_(from), data_plane_(data_plane), graph_(graph) {}

  void open(std::shared_ptr<BridgeListener> listener);
  /// Waits for the delivery under way; none follows.
  void close();

  /// The transport still reads the tensors of a packet that was sent to this process: a credit for
  /// its slot waits for `works`.
  void sent(const Header& header, std::vector<WorkPtr> works);

  /// Takes a message of the process. Bytes that are no message report the process as lost.
  void take(std::string_view bytes);
  void lost(const Error& reason);

 private:
  struct Pending {
    IncomingMessage message;
    std::vector<ReceivePtr> receives;  ///< of a packet's tensors, in order
    std::atomic<std::size_t> missing{0};
  };

  bool closed();
  void enqueue(const std::shared_ptr<Pending>& pending);
  void take_packet(const std::shared_ptr<Pending>& pending, const IncomingPacket& packet);
  void take_credit(const std::shared_ptr<Pending>& pending, const Credit& credit);
  void arrived(Pending& pending, const Status& status);
  void deliver();
  void hand_over(Pending& pending);

  const std::uint32_t from_;
  DataPlane& data_plane_;
  const Graph& graph_;  ///< used until close() only
  std::mutex mutex_;
  std::shared_ptr<BridgeListener> listener_;  ///< null before open() and after close()
  std::deque<std::shared_ptr<Pending>> pending_;
  /// Sends to this process by edge and slot; those that were not done at once.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<WorkPtr>> sending_;
};

}  // namespace troupe::remote

#pragma once
// Internal to the runtime: the messages that arrive from one process.

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/remote/call_gate.h"
#include "runtime/remote/data_plane.h"
#include "runtime/remote/flow_wire.h"

namespace troupe::remote {

/// Delivers the messages of one process in the order of sending: a message waits until its tensors
/// are here, and later messages wait for it. Thread-safe. Callers and its own callbacks run inside
/// the gate, so the inbox, its data plane, its graph and the functions that it calls exist during
/// each call.
class PeerInbox {
 public:
  PeerInbox(std::uint32_t from, DataPlane& data_plane, const Graph& graph, CallGate& gate)
      : from_(from), data_plane_(data_plane), graph_(graph), gate_(gate) {}

  /// Before the first message.
  void open(const Bridge::OnMessage& on_message, const Bridge::OnLost& on_lost) {
    on_message_ = &on_message;
    on_lost_ = &on_lost;
  }

  /// Records the sends of a packet's tensors to this process. A credit for the slot of the packet
  /// waits for `works`, because the transport still reads the tensors.
  void sent(const Header& header, std::vector<WorkPtr> works);

  /// Takes a message of the process. If the bytes are not a valid message, it reports the process
  /// as lost.
  void take(std::string_view bytes);
  void lost(const Error& reason);

 private:
  struct Pending {
    Incoming incoming;
    std::vector<ReceivePtr> receives;  ///< of a packet's tensors, in order
    std::atomic<std::size_t> missing{0};
  };

  void append(std::string_view bytes);
  void receive_tensors(Pending& pending);
  std::vector<WorkPtr> sends_before(const BridgeMessage& message);
  void arrived(Pending& pending);
  void deliver() noexcept;  ///< a message that was taken and not handed over would be lost
  void hand_over(Pending& pending);

  const std::uint32_t from_;
  DataPlane& data_plane_;
  const Graph& graph_;
  CallGate& gate_;
  const Bridge::OnMessage* on_message_ = nullptr;
  const Bridge::OnLost* on_lost_ = nullptr;
  std::mutex mutex_;  ///< of what follows, and of calls of both functions
  std::deque<std::shared_ptr<Pending>> pending_;
  /// Sends to this process by edge and slot; those that were not done at once.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<WorkPtr>> sending_;
};

}  // namespace troupe::remote

#include "runtime/remote/member_bridge.h"

#include <atomic>
#include <vector>

#include "runtime/remote/call_gate.h"
#include "runtime/remote/flow_wire.h"
#include "runtime/remote/outbox.h"
#include "runtime/remote/peer_inbox.h"

namespace troupe {
namespace {

using remote::CallGate;
using remote::Outbox;
using remote::PeerInbox;

/// A message without which the run of another process cannot end.
bool is_final(const RunMessage& message) {
  return std::holds_alternative<EndRun>(message) || std::holds_alternative<RunFailed>(message) ||
         std::holds_alternative<ProcessEnded>(message);
}

/// Threads of the member and of the data plane call it after its run has ended, since for other
/// processes the run ends a moment later. So their callbacks hold it weakly, and each call passes
/// the gate, behind which member, data plane and graph exist.
class MemberBridge final : public Bridge, public std::enable_shared_from_this<MemberBridge> {
 public:
  MemberBridge(Member& member, DataPlane& data_plane, const Graph& graph)
      : member_(member),
        data_plane_(data_plane),
        graph_(graph),
        rank_(member.rank()),
        outbox_(member, data_plane),
        next_tags_(static_cast<std::size_t>(member.size())) {
    for (std::uint32_t peer = 0; peer < next_tags_.size(); ++peer)
      inboxes_.push_back(std::make_shared<PeerInbox>(peer, data_plane, graph));
  }
  ~MemberBridge() override { close(); }

  void open(std::shared_ptr<BridgeListener> listener) override {
    for (const auto& inbox : inboxes_) inbox->open(listener);
    member_.open(
        [weak = weak_from_this()](int from, const std::string& body) {
          if (const auto bridge = weak.lock()) bridge->take(static_cast<std::uint32_t>(from), body);
        },
        [weak = weak_from_this()](const PeerLost& peer) {
          if (const auto bridge = weak.lock()) bridge->on_lost(peer);
        });
    for (std::uint32_t peer = 0; peer < inboxes_.size(); ++peer)
      if (outbox_.channel(peer)) open_channel(peer);
  }

  void close() override {
    if (closed_.exchange(true)) return;
    outbox_.close();
    for (const auto& inbox : inboxes_) inbox->close();
    gate_.close();
    data_plane_.deliver_pending();  // an action still at work does not reach it any more
  }

  void defer_delivery() override {
    if (const CallGate::Call call(gate_); call) data_plane_.defer_delivery();
  }
  void deliver_pending() override {
    if (const CallGate::Call call(gate_); call) data_plane_.deliver_pending();
  }

  void send(std::uint32_t to, RemotePacket remote) override {
    const CallGate::Call call(gate_);
    if (!call) return;
    remote::OutgoingPacket packet = remote::encode(remote, graph_, next_tags_[to]);
    std::uint64_t tag = packet.first_tag;
    std::vector<WorkPtr> works;
    for (Tensor& tensor : packet.tensors) {
      WorkPtr work = data_plane_.send(static_cast<int>(to), tag++, std::move(tensor));
      if (!work->done()) works.push_back(std::move(work));
    }
    // Before the message, so before any credit for it.
    if (!works.empty()) inboxes_[to]->sent(remote.packet.header, std::move(works));
    outbox_.send(to, std::move(packet.bytes));
  }
  void send(std::uint32_t to, RemoteCredit credit) override {
    if (const CallGate::Call call(gate_); call) outbox_.send(to, remote::encode(credit));
  }
  void send(std::uint32_t to, RunMessage message) override {
    const CallGate::Call call(gate_);
    if (!call) return;
    if (is_final(message)) return outbox_.send_final(to, remote::encode(message));
    outbox_.send(to, remote::encode(message));
  }

 private:
  void open_channel(std::uint32_t peer) {
    outbox_.channel(peer)->open(
        [weak = weak_from_this(), peer](std::string_view body) {
          if (const auto bridge = weak.lock()) bridge->take(peer, body);
        },
        [weak = weak_from_this(), peer](const Error& error) {
          if (const auto bridge = weak.lock()) bridge->on_damage(peer, error);
        });
  }

  void take(std::uint32_t from, std::string_view body) {
    if (const CallGate::Call call(gate_); call) inboxes_[from]->take(body);
  }

  void on_damage(std::uint32_t peer, const Error& error) {
    if (const CallGate::Call call(gate_); call) inboxes_[peer]->lost(error);
  }

  /// Without the coordinator, or if the coordinator reports this process as lost, all other
  /// processes are lost for this one.
  void on_lost(const PeerLost& peer) {
    const CallGate::Call call(gate_);
    if (!call) return;
    const Error error(ErrorCode::peer_lost, to_string(peer), "resume from the last checkpoint");
    outbox_.leave_shared_memory();
    // This process may itself be the lost one, and does not know the reason.
    if (peer.rank == PeerLost::coordinator)
      data_plane_.abort(error);
    else
      data_plane_.fail(error);
    const bool other = peer.rank != PeerLost::coordinator && peer.rank != rank_;
    if (other) return inboxes_[static_cast<std::size_t>(peer.rank)]->lost(error);
    for (const auto& inbox : inboxes_) inbox->lost(error);
  }

  Member& member_;
  DataPlane& data_plane_;
  const Graph& graph_;
  const int rank_;
  CallGate gate_;
  std::atomic<bool> closed_{false};
  Outbox outbox_;
  std::vector<std::shared_ptr<PeerInbox>> inboxes_;    ///< by process
  std::vector<std::atomic<std::uint64_t>> next_tags_;  ///< by process
};

}  // namespace

std::shared_ptr<Bridge> make_member_bridge(Member& member, DataPlane& data_plane,
                                           const Graph& graph) {
  return std::make_shared<MemberBridge>(member, data_plane, graph);
}

}  // namespace troupe

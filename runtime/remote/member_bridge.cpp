#include "runtime/remote/member_bridge.h"

#include <exception>
#include <new>
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

/// Threads of the member and of the data plane may call it after its run has ended, since for other
/// processes the run ends a moment later. So every call, of senders as well as of callbacks, goes
/// through the gate, behind which the member, the data plane, the graph and the run exist.
class MemberBridge final : public Bridge {
 public:
  MemberBridge(Member& member, DataPlane& data_plane, const Graph& graph)
      : member_(member),
        data_plane_(data_plane),
        graph_(graph),
        rank_(member.rank()),
        outbox_(member, data_plane) {
    for (int process = 0; process < member.size(); ++process)
      inboxes_.push_back(std::make_unique<PeerInbox>(static_cast<std::uint32_t>(process),
                                                     data_plane, graph, *gate_));
  }
  ~MemberBridge() override { close(); }

  void open(OnMessage on_message, OnLost on_lost) override {
    on_message_ = std::move(on_message);
    on_lost_ = std::move(on_lost);
    for (const auto& inbox : inboxes_) inbox->open(on_message_, on_lost_);
    member_.open(gate_->guard([this](int from, const std::string& body) {
      inboxes_[static_cast<std::size_t>(from)]->take(body);
    }),
                 gate_->guard([this](const PeerLost& peer) { lost(peer); }));
    for (std::uint32_t process = 0; process < inboxes_.size(); ++process)
      if (outbox_.channel(process)) open_channel(process);
  }

  void close() override {
    gate_->close();
    inboxes_.clear();
    on_message_ = {};  // they refer to the actors
    on_lost_ = {};
  }

  void send(std::uint32_t to, BridgeMessage message) override {
    const CallGate::Call call(*gate_);
    if (!call) return;
    if (const auto* packet = std::get_if<Packet>(&message))
      return send_packet(to, packet->header, remote::encode(message, graph_));
    whole([&] {
      std::string body = remote::encode(message, graph_).bytes;
      if (const auto* run_message = std::get_if<RunMessage>(&message))
        outbox_.send_run_message(to, std::move(body), is_final(*run_message));
      else
        outbox_.send(to, std::move(body));
    });
  }

 private:
  /// Sends something as a whole. The receiver would wait for ever for the rest of a part, or take
  /// its tensors for those of the next message. So a lack of memory in between ends the process.
  template <class Send>
  static void whole(Send&& send) {
    try {
      send();
    } catch (const std::bad_alloc&) {
      std::terminate();
    }
  }

  void send_packet(std::uint32_t to, const Header& header, WireWriter parts) {
    whole([&] {
      send_tensors(to, header, std::move(parts.tensors));
      outbox_.send(to, std::move(parts.bytes));
    });
  }

  void send_tensors(std::uint32_t to, const Header& header, std::vector<Tensor> tensors) {
    const Device device = graph_.edges()[header.edge].options.device;
    std::vector<WorkPtr> works;
    for (Tensor& tensor : tensors) {
      WorkPtr work = data_plane_.send(static_cast<int>(to), device, header.edge, std::move(tensor));
      if (!work->done()) works.push_back(std::move(work));
    }
    // Before the message, so before any credit for it.
    if (!works.empty()) inboxes_[to]->sent(header, std::move(works));
  }

  void open_channel(std::uint32_t peer) {
    PeerInbox& inbox = *inboxes_[peer];
    outbox_.channel(peer)->open(
        *gate_, [&inbox](std::string_view body) { inbox.take(body); },
        [&inbox](const Error& error) { inbox.lost(error); });
  }

  /// Without the coordinator, or if the coordinator reports this process as lost, all other
  /// processes are lost for this one.
  void lost(const PeerLost& peer) {
    const Error error(ErrorCode::peer_lost, to_string(peer), "resume from the last checkpoint");
    outbox_.leave_channels();
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
  const std::shared_ptr<CallGate> gate_ = std::make_shared<CallGate>();
  OnMessage on_message_;
  OnLost on_lost_;
  Outbox outbox_;
  std::vector<std::unique_ptr<PeerInbox>> inboxes_;  ///< by process
};

}  // namespace

std::shared_ptr<Bridge> make_member_bridge(Member& member, DataPlane& data_plane,
                                           const Graph& graph) {
  return std::make_shared<MemberBridge>(member, data_plane, graph);
}

}  // namespace troupe

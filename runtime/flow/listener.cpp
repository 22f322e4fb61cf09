#include <fmt/format.h>

#include "runtime/flow/shell.h"

namespace troupe::shell {
namespace {

class Listener final : public BridgeListener {
 public:
  Listener(std::shared_ptr<Shared> shared, caf::actor watch)
      : shared_(std::move(shared)), watch_(std::move(watch)) {}

  void on_packet(std::uint32_t from, RemotePacket remote) override {
    const auto& edges = shared_->graph.edges();
    const Header& header = remote.packet.header;
    if (header.run != shared_->run_id) return;  // of another run: none of ours
    if (header.edge >= edges.size() || edges[header.edge].to != remote.node ||
        shared_->placement.of(edges[header.edge].from) != from)
      return refuse(from,
                    fmt::format("a message on edge {} for actor {}", header.edge, remote.node));
    hand_on(from, remote.node, remote.generation, Delivery{std::move(remote.packet)});
  }

  void on_credit(std::uint32_t from, RemoteCredit remote) override {
    const auto& edges = shared_->graph.edges();
    const Credit& credit = remote.credit;
    if (credit.edge >= edges.size() || edges[credit.edge].from != remote.node ||
        credit.slot >= edges[credit.edge].options.slots ||
        shared_->placement.of(edges[credit.edge].to) != from)
      return refuse(from, fmt::format("slot {} of edge {} for actor {}", credit.slot, credit.edge,
                                      remote.node));
    // For an older life of the actor: that port drops it.
    hand_on(from, remote.node, {}, CreditNote{credit});
  }

  void on_note(std::uint32_t from, Note note) override {
    caf::anon_send(watch_, RemoteNote{from, std::move(note)});
  }

  void on_lost(std::uint32_t process, const Error& reason) override {
    caf::anon_send(watch_, LostNote{process, reason});
  }

 private:
  template <class Message>
  void hand_on(std::uint32_t from, std::size_t node, std::optional<std::uint32_t> generation,
               Message message) {
    if (!shared_->placement.is_here(node))
      return refuse(from, fmt::format("a message for actor {}, which is not here", node));
    const Peer peer = shared_->directory.get(node);
    if (!peer.actor || (generation && *generation != peer.generation)) return;
    shared_->gauges[node].add();
    caf::anon_send(peer.actor, std::move(message));
  }

  void refuse(std::uint32_t from, const std::string& what) {
    on_lost(from, Error(ErrorCode::bad_message,
                        fmt::format("process {} sent {}: no part of this run", from, what),
                        "start all processes from the same program and options"));
  }

  std::shared_ptr<Shared> shared_;
  caf::actor watch_;
};

}  // namespace

std::shared_ptr<BridgeListener> make_listener(std::shared_ptr<Shared> shared, caf::actor watch) {
  return std::make_shared<Listener>(std::move(shared), std::move(watch));
}

}  // namespace troupe::shell

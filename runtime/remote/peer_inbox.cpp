#include "runtime/remote/peer_inbox.h"

#include <fmt/format.h>

namespace troupe::remote {

void PeerInbox::sent(const Header& header, std::vector<WorkPtr> works) {
  const std::lock_guard lock(mutex_);
  sending_[{header.edge, header.slot}] = std::move(works);
}

void PeerInbox::take(std::string_view bytes) {
  try {
    append(bytes);
  } catch (const Error& error) {
    lost(Error(error.code(), fmt::format("rank {}: {}", from_, error.message()), error.remedy()));
  } catch (const std::exception& error) {
    lost(Error(ErrorCode::bad_message,
               fmt::format("a message of rank {}: {}", from_, error.what())));
  }
}

void PeerInbox::append(std::string_view bytes) {
  const auto pending = std::make_shared<Pending>();
  pending->incoming = decode(bytes, graph_);
  receive_tensors(*pending);
  std::vector<WorkPtr> sends;
  {
    const std::lock_guard lock(mutex_);
    sends = sends_before(pending->incoming.message);
    pending->missing = pending->receives.size() + sends.size();
    pending_.push_back(pending);
    deliver();
  }
  for (const WorkPtr& work : sends)  // a failed work holds no tensor either
    work->then(gate_.guard([this, pending](const Status&) { arrived(*pending); }));
  for (const ReceivePtr& receive : pending->receives)
    receive->then(gate_.guard([this, pending](const Status& status) {
      status ? arrived(*pending) : lost(status.error());
    }));
}

void PeerInbox::receive_tensors(Pending& pending) {
  const auto* packet = std::get_if<Packet>(&pending.incoming.message);
  if (!packet) return;
  const std::uint32_t edge = packet->header.edge;
  const Device device = graph_.edges()[edge].options.device;
  for (const auto& expected : pending.incoming.tensors)
    pending.receives.push_back(
        data_plane_.receive(static_cast<int>(from_), device, edge, expected.meta));
}

/// The work of a send may end after the credit has arrived. Until it ends, the tensor is held here,
/// and a packet in the same slot would hold a second one.
std::vector<WorkPtr> PeerInbox::sends_before(const BridgeMessage& message) {
  const auto* credit = std::get_if<Credit>(&message);
  if (!credit) return {};
  auto sends = sending_.extract({credit->edge, credit->slot});
  return sends ? std::move(sends.mapped()) : std::vector<WorkPtr>();
}

void PeerInbox::arrived(Pending& pending) {
  if (pending.missing.fetch_sub(1) > 1) return;
  const std::lock_guard lock(mutex_);
  deliver();
}

/// With the lock held: one message at a time.
void PeerInbox::deliver() noexcept {
  while (!pending_.empty() && pending_.front()->missing == 0) {
    const auto pending = std::move(pending_.front());
    pending_.pop_front();
    hand_over(*pending);
  }
}

void PeerInbox::hand_over(Pending& pending) {
  for (std::size_t i = 0; i < pending.receives.size(); ++i)
    *pending.incoming.tensors[i].place = pending.receives[i]->tensor();
  (*on_message_)(from_, std::move(pending.incoming.message));
}

void PeerInbox::lost(const Error& reason) {
  const std::lock_guard lock(mutex_);
  (*on_lost_)(from_, reason);
}

}  // namespace troupe::remote

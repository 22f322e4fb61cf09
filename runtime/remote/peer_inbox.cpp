#include "runtime/remote/peer_inbox.h"

#include <fmt/format.h>

namespace troupe::remote {

void PeerInbox::open(std::shared_ptr<BridgeListener> listener) {
  const std::lock_guard lock(mutex_);
  listener_ = std::move(listener);
}

void PeerInbox::close() {
  const std::lock_guard lock(mutex_);
  listener_.reset();
  pending_.clear();
}

bool PeerInbox::closed() {
  const std::lock_guard lock(mutex_);
  return !listener_;
}

void PeerInbox::sent(const Header& header, std::vector<WorkPtr> works) {
  const std::lock_guard lock(mutex_);
  sending_[{header.edge, header.slot}] = std::move(works);
}

void PeerInbox::take(std::string_view bytes) {
  if (closed()) return;  // the actors have ended
  try {
    const auto pending = std::make_shared<Pending>();
    pending->message = decode(bytes, graph_);
    if (const auto* packet = std::get_if<IncomingPacket>(&pending->message)) {
      take_packet(pending, *packet);
    } else if (const auto* remote = std::get_if<RemoteCredit>(&pending->message)) {
      take_credit(pending, remote->credit);
    } else {
      enqueue(pending);
      deliver();
    }
  } catch (const Error& error) {
    lost(Error(error.code(), fmt::format("rank {}: {}", from_, error.message()), error.remedy()));
  } catch (const std::exception& error) {
    lost(Error(ErrorCode::bad_message,
               fmt::format("a message of rank {}: {}", from_, error.what())));
  }
}

void PeerInbox::enqueue(const std::shared_ptr<Pending>& pending) {
  const std::lock_guard lock(mutex_);
  pending_.push_back(pending);
}

void PeerInbox::take_packet(const std::shared_ptr<Pending>& pending, const IncomingPacket& packet) {
  std::uint64_t tag = packet.first_tag;
  for (const auto& expected : packet.tensors)
    pending->receives.push_back(data_plane_.receive(static_cast<int>(from_), tag++, expected.meta));
  pending->missing = pending->receives.size();
  enqueue(pending);
  if (pending->receives.empty()) return deliver();
  for (const ReceivePtr& receive : pending->receives)
    receive->then([self = weak_from_this(), pending](const Status& status) {
      if (const auto inbox = self.lock()) inbox->arrived(*pending, status);
    });
}

/// The work of a send may end after the credit has arrived. Until it ends, the tensor is held here,
/// and a packet in the same slot would hold a second one.
void PeerInbox::take_credit(const std::shared_ptr<Pending>& pending, const Credit& credit) {
  std::vector<WorkPtr> works;
  {
    const std::lock_guard lock(mutex_);
    if (auto held = sending_.extract({credit.edge, credit.slot})) works = std::move(held.mapped());
    pending->missing = works.size();
    pending_.push_back(pending);
  }
  if (works.empty()) return deliver();
  for (const WorkPtr& work : works)  // a failed work holds no tensor either
    work->then([self = weak_from_this(), pending](const Status&) {
      if (const auto inbox = self.lock()) inbox->arrived(*pending, success());
    });
}

void PeerInbox::arrived(Pending& pending, const Status& status) {
  if (!status) return lost(status.error());
  if (pending.missing.fetch_sub(1) == 1) deliver();
}

/// Delivers with the lock held: one message at a time, and none after close().
void PeerInbox::deliver() {
  const std::lock_guard lock(mutex_);
  while (listener_ && !pending_.empty() && pending_.front()->missing == 0) {
    const auto pending = std::move(pending_.front());
    pending_.pop_front();
    hand_over(*pending);
  }
}

void PeerInbox::hand_over(Pending& pending) {
  if (auto* packet = std::get_if<IncomingPacket>(&pending.message)) {
    for (std::size_t i = 0; i < packet->tensors.size(); ++i)
      *packet->tensors[i].place = pending.receives[i]->tensor();
    listener_->on_packet(from_, std::move(packet->remote));
  } else if (const auto* credit = std::get_if<RemoteCredit>(&pending.message)) {
    listener_->on_credit(from_, *credit);
  } else {
    listener_->on_run_message(from_, std::move(std::get<RunMessage>(pending.message)));
  }
}

void PeerInbox::lost(const Error& reason) {
  const std::lock_guard lock(mutex_);
  if (listener_) listener_->on_lost(from_, reason);
}

}  // namespace troupe::remote

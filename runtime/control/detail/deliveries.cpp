#include "runtime/control/detail/deliveries.h"

namespace troupe::control {

void Deliveries::open(Member::OnMessage on_message, Member::OnLost on_lost) {
  opened_ = {std::move(on_message), std::move(on_lost)};
}

void Deliveries::drop_messages() {
  std::erase_if(waiting_, [](const auto& one) { return !std::holds_alternative<PeerLost>(one); });
}

void Deliveries::deliver(std::unique_lock<std::mutex>& lock) {
  if (opened_) callbacks_ = std::exchange(opened_, {});
  while (callbacks_ && !waiting_.empty()) {
    auto next = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    if (auto* message = std::get_if<std::pair<int, std::string>>(&next))
      callbacks_->on_message(message->first, std::move(message->second));
    else
      callbacks_->on_lost(std::get<PeerLost>(next));
    lock.lock();
  }
}

}  // namespace troupe::control

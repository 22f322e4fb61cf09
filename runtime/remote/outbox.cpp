#include "runtime/remote/outbox.h"

#include <utility>

namespace troupe::remote {

Outbox::Outbox(Member& member, const DataPlane& data_plane)
    : member_(member), final_(static_cast<std::size_t>(member.size())) {
  for (int process = 0; process < member.size(); ++process) {
    const DataPlane::Route& route = data_plane.route(process, Device::cpu());
    const bool near = route.transport && route.transport->carries_messages;
    channels_.push_back(near ? std::make_unique<MessageChannel>(*route.communicator, route.rank)
                             : nullptr);
  }
}

void Outbox::send(std::uint32_t to, std::string body) {
  if (channels_[to]) return channels_[to]->send(body);
  member_.send(static_cast<int>(to), std::move(body));
}

void Outbox::send_run_message(std::uint32_t to, std::string body, bool is_final) {
  const std::lock_guard lock(mutex_);
  if (process_is_lost_) return member_.send(static_cast<int>(to), std::move(body));
  if (channels_[to] && is_final) final_[to].push_back(body);
  send(to, std::move(body));
}

void Outbox::leave_channels() {
  const std::lock_guard lock(mutex_);
  process_is_lost_ = true;
  for (std::size_t to = 0; to < final_.size(); ++to)
    for (std::string& body : std::exchange(final_[to], {}))
      member_.send(static_cast<int>(to), std::move(body));
}

}  // namespace troupe::remote

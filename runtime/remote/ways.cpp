#include "runtime/remote/ways.h"

namespace troupe {

Ways::Ways(const Member& member, TransportKind transport) : member_(member), transport_(transport) {
  for (const PeerInfo& peer : member.peers()) hosts_[peer.identity()].push_back(peer.rank);
}

const std::string& Ways::host_of(int rank) const {
  return member_.peers().at(static_cast<std::size_t>(rank)).identity();
}

std::vector<int> Ways::sharing_memory_with(int rank) const {
  if (transport_ == TransportKind::gloo) return {rank};
  return hosts_.at(host_of(rank));
}

bool Ways::share_memory(int one, int other) const {
  return transport_ != TransportKind::gloo && host_of(one) == host_of(other);
}

bool Ways::need_no_network() const {
  return transport_ != TransportKind::gloo && hosts_.size() == 1;
}

}  // namespace troupe

#include "runtime/remote/data_plane.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/worker_pool.h"

namespace troupe {

TransportTopology topology_of(const Member& member, const TransportOptions& options) {
  std::vector<ProcessPlace> places;
  for (const PeerInfo& peer : member.peers()) places.push_back({peer.host(), peer.identity()});
  return {std::move(places), options.transport};
}

Result<std::unique_ptr<DataPlane>> DataPlane::connect(Member& member,
                                                      const TransportOptions& options) {
  return attempt([&]() -> std::unique_ptr<DataPlane> {
    std::unique_ptr<DataPlane> plane(new DataPlane);
    plane->routes_.resize(static_cast<std::size_t>(member.size()));
    const TransportTopology topology = topology_of(member, options);
    for (const auto& [transport, ranks] : topology.groups_of(member.rank())) {
      const auto own = std::ranges::find(ranks, member.rank()) - ranks.begin();
      // The address that the control plane uses, which is loopback on one host: a transport that
      // does not encrypt must not listen to more than that.
      auto made = transport->connect(
          {.store = member.store(),
           .rank = static_cast<int>(own),
           .size = static_cast<int>(ranks.size()),
           .name = fmt::format("{}/{}/{}", transport->name, member.generation(), ranks.front()),
           .timeout = options.timeout,
           .address = member.peers()[static_cast<std::size_t>(member.rank())].address()});
      Communicator* communicator = made.value().get();
      plane->communicators_.push_back(std::move(made.value()));
      for (std::size_t i = 0; i < ranks.size(); ++i)
        if (ranks[i] != member.rank() && &topology.between(member.rank(), ranks[i]) == transport)
          plane->routes_[static_cast<std::size_t>(ranks[i])] = {transport, communicator,
                                                                static_cast<int>(i)};
    }
    return plane;
  });
}

WorkPtr DataPlane::send(int to, std::uint64_t tag, Tensor tensor) {
  const Route& route = routes_.at(static_cast<std::size_t>(to));
  return route.communicator->send(route.rank, tag, std::move(tensor));
}

ReceivePtr DataPlane::receive(int from, std::uint64_t tag, const TensorMeta& meta) {
  const Route& route = routes_.at(static_cast<std::size_t>(from));
  return route.communicator->receive(route.rank, tag, meta);
}

void DataPlane::defer_delivery() {
  for (const auto& communicator : communicators_) communicator->defer_delivery();
}

void DataPlane::deliver_pending() {
  for (const auto& communicator : communicators_) communicator->deliver_pending();
}

void DataPlane::abort(const Error& error) {
  for (const auto& communicator : communicators_) communicator->abort(error);
}

void DataPlane::fail(const Error& error) {
  for (const auto& communicator : communicators_) communicator->fail(error);
}

}  // namespace troupe

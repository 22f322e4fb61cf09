#include "runtime/remote/data_plane.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/worker_pool.h"

namespace troupe {

TransportTopology topology_of(const Member& member, const TransportOptions& options) {
  std::vector<ProcessPlace> places;
  for (const ProcessInfo& process : member.processes())
    places.push_back({process.host(), process.identity()});
  return {std::move(places), options.transport};
}

Result<std::unique_ptr<DataPlane>> DataPlane::connect(Member& member,
                                                      const TransportOptions& options,
                                                      const std::vector<Device>& devices) {
  return attempt([&]() -> std::unique_ptr<DataPlane> {
    std::unique_ptr<DataPlane> plane(new DataPlane);
    const TransportTopology topology = topology_of(member, options);
    for (std::size_t d = 0; d < devices.size(); ++d)
      plane->connect_routes(member, options, topology, devices[d], d);
    return plane;
  });
}

void DataPlane::connect_routes(Member& member, const TransportOptions& options,
                               const TransportTopology& topology, Device device,
                               std::size_t number) {
  std::vector<Route> routes(static_cast<std::size_t>(member.size()));
  for (const auto& [transport, ranks] : topology.groups_of(member.rank(), device)) {
    const auto own = std::ranges::find(ranks, member.rank()) - ranks.begin();
    // The address that the control plane uses, which is loopback on one host: a transport that does
    // not encrypt must not listen to more than that.
    auto made = transport->connect(
        {.store = member.store(),
         .rank = static_cast<int>(own),
         .size = static_cast<int>(ranks.size()),
         .device = device,
         .name = fmt::format("{}/{}/{}/{}", transport->name, member.generation(), ranks.front(),
                             number),
         .timeout = options.timeout,
         .address = member.processes()[static_cast<std::size_t>(member.rank())].address(),
         .deferral = &deferral_});
    Communicator* communicator = made.value().get();
    communicators_.push_back(std::move(made.value()));
    for (std::size_t i = 0; i < ranks.size(); ++i)
      if (ranks[i] != member.rank() &&
          &topology.between(member.rank(), ranks[i], device) == transport)
        routes[static_cast<std::size_t>(ranks[i])] = {transport, communicator, static_cast<int>(i)};
  }
  routes_.push_back({device, std::move(routes)});
}

const DataPlane::Route& DataPlane::route(int process, Device device) const {
  const auto found = std::ranges::find(routes_, device, &DeviceRoutes::device);
  if (found == routes_.end())
    throw Error(ErrorCode::internal, "no route for tensors on " + to_string(device));
  return found->by_rank.at(static_cast<std::size_t>(process));
}

WorkPtr DataPlane::send(int to, Device device, std::uint64_t tag, Tensor tensor) {
  const Route& via = route(to, device);
  return via.communicator->send(via.rank, tag, std::move(tensor));
}

ReceivePtr DataPlane::receive(int from, Device device, std::uint64_t tag, const TensorMeta& meta) {
  const Route& via = route(from, device);
  return via.communicator->receive(via.rank, tag, meta);
}

void DataPlane::abort(const Error& error) {
  for (const auto& communicator : communicators_) communicator->abort(error);
}

void DataPlane::fail(const Error& error) {
  for (const auto& communicator : communicators_) communicator->fail(error);
}

}  // namespace troupe

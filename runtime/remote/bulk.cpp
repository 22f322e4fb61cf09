#include "runtime/remote/bulk.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/remote/ways.h"

namespace troupe {
namespace {

Error several_hosts(const Member& member) {
  const auto& peers = member.peers();
  const auto other = std::ranges::find_if(
      peers, [&](const PeerInfo& peer) { return peer.identity() != peers[0].identity(); });
  return not_on_one_host(peers[0].host(), other->rank, other->host());
}

}  // namespace

Error not_on_one_host(const std::string& host_of_zero, int rank, const std::string& host) {
  return {
      ErrorCode::bad_options,
      fmt::format("parallel.transport: shm, but rank 0 is on {} and rank {} on {}", host_of_zero,
                  rank, host),
      "take parallel.transport: auto (shared memory within a host, Gloo between hosts) or gloo"};
}

Result<std::unique_ptr<Bulk>> Bulk::connect(Member& member, const TransportOptions& options) {
  std::unique_ptr<Bulk> bulk(new Bulk);
  bulk->routes_.resize(static_cast<std::size_t>(member.size()));
  const Ways ways(member, options.transport);
  const std::vector<int> near = ways.sharing_memory_with(member.rank());
  const std::uint32_t generation = member.generation();
  if (options.transport == TransportKind::shm && !ways.need_no_network())
    return several_hosts(member);
  if (near.size() > 1) {
    const int own = static_cast<int>(std::ranges::find(near, member.rank()) - near.begin());
    auto made = make_shm_communicator(member.store(), own, static_cast<int>(near.size()),
                                      {.group = fmt::format("shm/{}/{}", generation, near.front()),
                                       .timeout = options.timeout,
                                       .memory_limit = SIZE_MAX});
    if (!made) return made.error();
    for (std::size_t i = 0; i < near.size(); ++i)
      bulk->routes_[static_cast<std::size_t>(near[i])] = {made.value().get(), static_cast<int>(i),
                                                          true};
    bulk->communicators_.push_back(std::move(made.value()));
  }
  if (!ways.need_no_network()) {
    // Where the members reach each other already, which is loopback on one host: this plane lets
    // strangers in, so it is never wider than theirs.
    const std::string& own = member.peers()[static_cast<std::size_t>(member.rank())].address();
    auto made = make_gloo_communicator(member.store(), member.rank(), member.size(),
                                       {.group = fmt::format("gloo/{}", generation),
                                        .timeout = options.timeout,
                                        .interface = own});
    if (!made) return made.error();
    for (int rank = 0; rank < member.size(); ++rank) {
      Route& route = bulk->routes_[static_cast<std::size_t>(rank)];
      if (!route.communicator) route = {made.value().get(), rank, false};
    }
    bulk->communicators_.push_back(std::move(made.value()));
  }
  return bulk;
}

WorkPtr Bulk::send(int to, std::uint64_t tag, Tensor tensor) {
  const Route& route = routes_.at(static_cast<std::size_t>(to));
  return route.communicator->send(route.rank, tag, std::move(tensor));
}

ReceivePtr Bulk::receive(int from, std::uint64_t tag, const TensorMeta& meta) {
  const Route& route = routes_.at(static_cast<std::size_t>(from));
  return route.communicator->receive(route.rank, tag, meta);
}

void Bulk::defer_delivery() {
  for (const auto& communicator : communicators_) communicator->defer_delivery();
}

void Bulk::deliver_pending() {
  for (const auto& communicator : communicators_) communicator->deliver_pending();
}

void Bulk::abort(const Error& error) {
  for (const auto& communicator : communicators_) communicator->abort(error);
}

void Bulk::fail(const Error& error) {
  for (const auto& communicator : communicators_) communicator->fail(error);
}

}  // namespace troupe

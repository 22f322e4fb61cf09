#include "runtime/transport/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace troupe {
namespace {

std::vector<const Transport*> choices(std::string_view transport) {
  if (transport != automatic_transport) return {&transport_named(transport)};
  return {transports().begin(), transports().end()};
}

const Transport* first_that_joins(const std::vector<const Transport*>& choices,
                                  const ProcessPlace& one, const ProcessPlace& other,
                                  Device device = Device::cpu()) {
  const auto found = std::ranges::find_if(choices, [&](const Transport* transport) {
    return transport->serves(device) && transport->joins(one, other);
  });
  return found == choices.end() ? nullptr : *found;
}

/// Two places of different hosts, for what holds whatever the processes.
std::pair<ProcessPlace, ProcessPlace> two_hosts() { return {{"one", "one"}, {"other", "other"}}; }

std::string words(const Transport* within, const Transport* between, std::string_view hosts) {
  if (!between || within == between) return std::string(within->title);
  if (!within) return std::string(between->title);
  return fmt::format("{} within a host, {} between{}", within->title, between->title, hosts);
}

/// "set `transport` to auto (shared memory within a host, Gloo between hosts) or gloo".
std::string join_them_by(const ProcessPlace& one, const ProcessPlace& other) {
  std::string names;
  for (const Transport* transport : transports())
    if (transport->joins(one, other)) names += fmt::format(" or {}", transport->name);
  return fmt::format("set `transport` to {} ({}){}", automatic_transport,
                     meaning_of_transport(automatic_transport), names);
}

}  // namespace

TransportTopology::TransportTopology(std::vector<ProcessPlace> processes,
                                     std::string_view transport)
    : processes_(std::move(processes)), choices_(choices(transport)) {
  for (int other = 1; other < size(); ++other)
    if (!find(0, other, Device::cpu())) {
      const auto& zero = processes_.front();
      const auto& that = processes_[static_cast<std::size_t>(other)];
      throw Error(ErrorCode::bad_options,
                  fmt::format("`transport` is {}, but rank 0 is on {} and rank {} on {}", transport,
                              zero.host, other, that.host),
                  join_them_by(zero, that));
    }
}

const Transport* TransportTopology::find(int one, int other, Device device) const {
  return first_that_joins(choices_, processes_.at(static_cast<std::size_t>(one)),
                          processes_.at(static_cast<std::size_t>(other)), device);
}

const Transport& TransportTopology::between(int one, int other, Device device) const {
  if (const Transport* transport = find(one, other, device)) return *transport;
  throw Error(ErrorCode::unsupported,
              fmt::format("rank {} sends tensors on {} to rank {}, which no transport of this run "
                          "carries",
                          one, to_string(device), other),
              "start one process, or set `device` to cpu");
}

std::vector<TransportTopology::Group> TransportTopology::groups_of(int rank, Device device) const {
  std::vector<Group> groups;
  for (const Transport* transport : choices_) {
    if (!transport->serves(device)) continue;
    Group group{transport, {}};
    for (int other = 0; other < size(); ++other)
      if (transport->joins(processes_[static_cast<std::size_t>(rank)],
                           processes_[static_cast<std::size_t>(other)]))
        group.ranks.push_back(other);
    const bool used = std::ranges::any_of(group.ranks, [&](int one) {
      return std::ranges::any_of(group.ranks, [&](int other) {
        return one != other && find(one, other, device) == transport;
      });
    });
    if (used) groups.push_back(std::move(group));
  }
  return groups;
}

std::string TransportTopology::summary() const {
  const Transport *within = nullptr, *across = nullptr;
  std::map<std::string, int> first_of_host;
  for (int rank = 0; rank < size(); ++rank) {
    const auto [first, is_first] =
        first_of_host.emplace(processes_[static_cast<std::size_t>(rank)].identity, rank);
    if (!is_first && !within) within = find(first->second, rank, Device::cpu());
    if (is_first && rank != 0 && !across) across = find(0, rank, Device::cpu());
  }
  return words(within || across ? within : choices_.front(), across, "");
}

std::vector<std::string_view> transport_choices() {
  std::vector<std::string_view> names{automatic_transport};
  for (const Transport* transport : transports()) names.push_back(transport->name);
  return names;
}

std::string meaning_of_transport(std::string_view transport) {
  const auto [one, other] = two_hosts();
  const auto all = choices(transport);
  return words(first_that_joins(all, one, one), first_that_joins(all, one, other), " hosts");
}

bool joins_hosts(std::string_view transport) {
  const auto [one, other] = two_hosts();
  return first_that_joins(choices(transport), one, other) != nullptr;
}

}  // namespace troupe

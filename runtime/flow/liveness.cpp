#include "runtime/flow/liveness.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace troupe {
namespace {

/// A place of a Petri net between two transitions: the messages on an edge, its free slots, or an
/// internal place of an actor.
struct Place {
  std::size_t from = 0, to = 0;
  std::int64_t fills = 1, takes = 1;
  std::int64_t tokens = 0;
  std::string missing;              // what `to` waits for when the place has too few tokens
  std::optional<std::size_t> edge;  // of free slots
};

struct Net {
  std::vector<std::string> transitions;
  std::vector<Place> places;
};

struct PortUse {
  std::size_t transition;
  std::int64_t count;
};

template <class Member, class Port>
std::optional<PortUse> use_of(const FiringRules& rules, std::size_t base, Member member,
                              const Port* port) {
  for (std::size_t t = 0; t < rules.transitions.size(); ++t)
    for (const auto& use : rules.transitions[t].*member)
      if (use.port == port) return PortUse{base + t, use.count};
  return std::nullopt;
}

Net net_of(const Graph& graph) {
  Net net;
  std::vector<FiringRules> rules;
  std::vector<std::size_t> base;
  for (const auto& actor : graph.actors()) {
    rules.push_back(actor.prototype->firing_rules());
    base.push_back(net.transitions.size());
    for (const auto& t : rules.back().transitions)
      net.transitions.push_back(actor.name + " " + t.name);
    for (const auto& s : rules.back().internal_places) {
      const std::size_t from = base.back() + s.from, to = base.back() + s.to;
      net.places.push_back({from, to, s.fills, s.takes, 0, "something inside " + actor.name, {}});
      net.places.push_back(
          {to, from, s.takes, s.fills, s.capacity, "room inside " + actor.name, {}});
    }
  }
  for (std::size_t id = 0; id < graph.edges().size(); ++id) {
    const auto& edge = graph.edges()[id];
    const Actor& sender = *graph.actors()[edge.from].prototype;
    const Actor& receiver = *graph.actors()[edge.to].prototype;
    const InputPort* in = receiver.inputs()[edge.input];
    const auto fill = use_of(rules[edge.from], base[edge.from], &Transition::fills,
                             sender.outputs()[edge.output]);
    const auto take = use_of(rules[edge.to], base[edge.to], &Transition::takes, in);
    const auto give_back = use_of(rules[edge.to], base[edge.to], &Transition::releases, in);
    if (!fill || !take || !give_back) continue;  // the rules do not cover this edge
    const std::string name = graph.edge_name(id);
    net.places.push_back({fill->transition,
                          take->transition,
                          fill->count,
                          take->count,
                          0,
                          "a message on " + name,
                          {}});
    net.places.push_back({give_back->transition, fill->transition, give_back->count, fill->count,
                          edge.options.slots, "a free slot on " + name, id});
  }
  return net;
}

/// How often a transition fires, relative to another one of the same connected part of the net;
/// 0 until it is known.
struct Rate {
  std::int64_t over = 0, under = 1;
  bool operator==(const Rate&) const = default;
};

Rate reduced(std::int64_t over, std::int64_t under) {
  const std::int64_t divisor = std::gcd(over, under);
  return {over / divisor, under / divisor};
}

/// The balance equation of a place: `from` fills as many tokens as `to` takes.
Rate rate_of_other_end(const Place& place, std::size_t end, Rate rate) {
  const auto [mine, theirs] =
      place.from == end ? std::pair(place.fills, place.takes) : std::pair(place.takes, place.fills);
  return reduced(rate.over * mine, rate.under * theirs);
}

/// Sets the rates of all transitions that are connected to `start`, relative to it, and returns
/// these transitions.
std::vector<std::size_t> set_rates_from(std::size_t start, const Net& net,
                                        std::vector<Rate>& rates) {
  rates[start] = {1, 1};
  std::vector<std::size_t> reached{start};
  for (std::size_t next = 0; next < reached.size(); ++next) {
    const std::size_t t = reached[next];
    for (const Place& place : net.places) {
      if (place.from != t && place.to != t) continue;
      const std::size_t other = place.from == t ? place.to : place.from;
      const Rate expected = rate_of_other_end(place, t, rates[t]);
      if (rates[other] == Rate{}) {
        rates[other] = expected;
        reached.push_back(other);
      } else if (rates[other] != expected) {
        throw Error(ErrorCode::bad_graph,
                    fmt::format("'{}' and '{}' send and receive at different rates ({})",
                                net.transitions[t], net.transitions[other], place.missing),
                    "let the receiver take as many messages from each edge as the sender sends");
      }
    }
  }
  return reached;
}

/// How often each transition fires in one iteration: the smallest solution of the balance
/// equations.
std::vector<std::int64_t> repetitions(const Net& net) {
  std::vector<Rate> rates(net.transitions.size());
  std::vector<std::int64_t> counts(rates.size());
  for (std::size_t start = 0; start < rates.size(); ++start) {
    if (rates[start] != Rate{}) continue;
    const std::vector<std::size_t> connected = set_rates_from(start, net, rates);
    std::int64_t scale = 1;
    for (const std::size_t t : connected) scale = std::lcm(scale, rates[t].under);
    for (const std::size_t t : connected) counts[t] = rates[t].over * (scale / rates[t].under);
  }
  return counts;
}

const Place* short_place(const Net& net, std::size_t transition) {
  for (const Place& p : net.places)
    if (p.to == transition && p.tokens < p.takes) return &p;
  return nullptr;
}

Deadlock blocking_cycle(const Net& net, const std::vector<std::int64_t>& left, const Graph& graph) {
  // Every unfinished transition waits for a place whose filling transition is unfinished too, since
  // a finished one has put in all tokens of an iteration. So the path must reach a cycle.
  std::size_t t = static_cast<std::size_t>(
      std::ranges::find_if(left, [](std::int64_t n) { return n > 0; }) - left.begin());
  std::vector<std::size_t> path;
  while (std::ranges::find(path, t) == path.end()) {
    path.push_back(t);
    t = short_place(net, t)->from;
  }
  path.erase(path.begin(), std::ranges::find(path, t));
  Deadlock deadlock;
  for (std::size_t waiting : path) {
    const Place& p = *short_place(net, waiting);
    deadlock.cycle.push_back(fmt::format("{} waits for {}", net.transitions[waiting], p.missing));
    if (p.edge && deadlock.remedy.empty())
      deadlock.remedy = fmt::format("give {} at least {} slots, {} more", graph.edge_name(*p.edge),
                                    graph.edges()[*p.edge].options.slots + p.takes - p.tokens,
                                    p.takes - p.tokens);
  }
  if (deadlock.remedy.empty())
    deadlock.remedy = "break the cycle: none of its actors can send first";
  return deadlock;
}

}  // namespace

std::string to_string(const Deadlock& deadlock) {
  return fmt::format("deadlock: {}", fmt::join(deadlock.cycle, "; "));
}

std::optional<Deadlock> find_deadlock(const Graph& graph) {
  Net net = net_of(graph);
  std::vector<std::int64_t> left = repetitions(net);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t t = 0; t < left.size(); ++t) {
      while (left[t] > 0 && !short_place(net, t)) {
        for (Place& p : net.places) {
          if (p.to == t) p.tokens -= p.takes;
          if (p.from == t) p.tokens += p.fills;
        }
        --left[t];
        moved = true;
      }
    }
  }
  if (std::ranges::all_of(left, [](std::int64_t n) { return n == 0; })) return std::nullopt;
  return blocking_cycle(net, left, graph);
}

}  // namespace troupe

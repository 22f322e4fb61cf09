#include "runtime/flow/port.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/device/device_stream.h"
#include "runtime/flow/actor.h"

namespace troupe {

InputPort::InputPort(Actor* owner, std::string name, std::type_index type, Connection connection)
    : owner_(owner), name_(std::move(name)), type_(type), connection_(connection) {
  owner->inputs_.push_back(this);
}

void InputPort::attach(std::uint32_t edge, std::uint32_t slots) {
  edges_.push_back({.id = edge, .slots = slots, .incarnation = 0, .last = std::nullopt});
}

InputPort::Edge& InputPort::edge(std::uint32_t id) {
  return *std::ranges::find(edges_, id, &Edge::id);
}

void InputPort::deliver(Packet&& packet) {
  const Header& header = packet.header;
  Edge& from = edge(header.edge);
  if (header.incarnation < from.incarnation) {
    ++dropped_;
    return;
  }
  sender_replaced(header.edge, header.incarnation);  // a packet may precede Replaced
  const Credit credit{header.edge, header.incarnation, header.slot};
  if (from.last && header.key <= *from.last) {
    // A replaced sender repeats it. If the first copy is still in use, its slot is now this one;
    // else the slot is returned at once.
    ++dropped_;
    for (Unreleased& message : unreleased_) {
      if (message.credit.edge == header.edge && message.key == header.key) {
        message.credit = credit;
        message.orphaned = false;
        return;
      }
    }
    owner_->effects_.credits.push_back(credit);
    return;
  }
  const auto unreleased_here = std::ranges::count_if(unreleased_, [&](const Unreleased& o) {
    return o.credit.edge == header.edge && !o.orphaned;
  });
  if (unreleased_here >= from.slots)
    throw Error(ErrorCode::internal,
                fmt::format("edge {} into '{}' holds {} messages but has {} slots", header.edge,
                            name_, unreleased_here + 1, from.slots));
  from.last = header.key;
  unreleased_.push_back({header.key, credit, false});
  queue_.push_back(std::move(packet));
}

void InputPort::sender_replaced(std::uint32_t edge_id, std::uint32_t incarnation) {
  Edge& from = edge(edge_id);
  if (incarnation <= from.incarnation) return;
  from.incarnation = incarnation;
  for (Unreleased& message : unreleased_)
    if (message.credit.edge == edge_id) message.orphaned = true;
}

bool InputPort::full() const {
  const auto taken = [](const Unreleased& message) { return !message.orphaned; };
  const auto held = static_cast<std::size_t>(std::ranges::count_if(unreleased_, taken));
  std::size_t slots = 0;
  for (const Edge& edge : edges_) slots += edge.slots;
  return held >= slots;
}

Packet InputPort::take_packet() {
  Packet packet = std::move(queue_.front());
  queue_.pop_front();
  if (!packet.fence) return packet;
  // An actor without a stream gets a packet when its fence has passed.
  if (packet.fence->done())
    packet.fence->status().value();  // throws where the sender's work failed
  else
    owner_->stream()->wait(packet.fence, Awaits::results);
  return packet;
}

void InputPort::release_packet(const Header& header) {
  const auto message = std::ranges::find_if(unreleased_, [&](const Unreleased& o) {
    return o.credit.edge == header.edge && o.key == header.key;
  });
  if (message == unreleased_.end())
    throw Error(
        ErrorCode::internal,
        fmt::format("a message of edge {} into '{}' was released twice", header.edge, name_));
  if (!message->orphaned) owner_->effects_.credits.push_back(message->credit);
  unreleased_.erase(message);
}

OutputPort::OutputPort(Actor* owner, std::string name, std::type_index type, Connection connection)
    : owner_(owner), name_(std::move(name)), type_(type), connection_(connection) {
  owner->outputs_.push_back(this);
}

bool OutputPort::has_slot(std::uint32_t count) const {
  return std::ranges::all_of(edges_, [&](const Edge& edge) { return edge.free >= count; });
}

void OutputPort::attach(std::uint32_t edge, std::uint32_t slots) {
  edges_.push_back({.id = edge, .last = std::nullopt, .slots = {}, .free = slots});
  edges_.back().slots.resize(slots);
}

void OutputPort::credit(const Credit& credit) {
  const auto edge = std::ranges::find(edges_, credit.edge, &Edge::id);
  if (credit.incarnation != incarnation_ || edge == edges_.end()) return;  // an older one
  if (edge->slots.at(credit.slot)) {
    edge->slots[credit.slot].reset();
    ++edge->free;
  }
}

void OutputPort::set_fence(const Header& header, const std::shared_ptr<Work>& fence) {
  std::ranges::find(edges_, header.edge, &Edge::id)->slots.at(header.slot)->fence = fence;
}

std::vector<Packet> OutputPort::unreleased(std::uint32_t edge_id) const {
  std::vector<Packet> packets;
  for (const Edge& edge : edges_)
    if (edge.id == edge_id)
      for (const auto& slot : edge.slots)
        if (slot) packets.push_back(*slot);
  std::ranges::sort(packets, {}, [](const Packet& p) { return p.header.key; });
  return packets;
}

void OutputPort::send_packet(Header header, const std::shared_ptr<const void>& payload) {
  header.incarnation = incarnation_;
  for (Edge& edge : edges_) {
    const auto slot =
        std::ranges::find_if(edge.slots, [](const auto& s) { return !s.has_value(); });
    if (slot == edge.slots.end())
      throw Error(ErrorCode::internal,
                  fmt::format("'{}' sent on edge {} without a free slot", name_, edge.id),
                  "call has_slot() first");
    // A receiver drops a message whose key does not grow: it takes it for a repetition.
    if (edge.last && header.key <= *edge.last)
      throw Error(ErrorCode::internal,
                  fmt::format("'{}' sent step {}, micro-batch {} after step {}, micro-batch {}",
                              name_, header.key.step, header.key.micro_batch, edge.last->step,
                              edge.last->micro_batch),
                  "give each message on an edge a larger key than the one before");
    edge.last = header.key;
    header.edge = edge.id;
    header.slot = static_cast<std::uint32_t>(slot - edge.slots.begin());
    slot->emplace(Packet{header, payload});
    --edge.free;
    owner_->effects_.packets.push_back(**slot);
  }
}

}  // namespace troupe

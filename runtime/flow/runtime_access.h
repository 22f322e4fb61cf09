#pragma once
// Internal to the runtime: its operations on actors and ports, which programs do not need.

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/flow/actor.h"

namespace troupe {

class RuntimeAccess {
 public:
  using Effects = Actor::Effects;
  /// The pending effects of the actor's calls. The runtime dispatches and clears them.
  static Effects& effects(Actor& actor) { return actor.effects_; }
  static void set_poster(Actor& actor, std::function<std::function<void(Post)>()> make) {
    actor.make_poster_ = std::move(make);
  }

  /// Connects the port to an edge with this number of slots.
  static void attach(InputPort& port, std::uint32_t edge, std::uint32_t slots) {
    port.attach(edge, slots);
  }
  static void attach(OutputPort& port, std::uint32_t edge, std::uint32_t slots) {
    port.attach(edge, slots);
  }

  /// Takes a message in. Drops messages of older incarnations and returns the slots of repeated
  /// ones; throws Error{internal} if the edge's slots are exceeded.
  static void deliver(InputPort& port, Packet&& packet) { port.deliver(std::move(packet)); }
  /// The sender of `edge` was replaced. Its messages stay valid, but their slots no longer exist.
  static void sender_replaced(InputPort& port, std::uint32_t edge, std::uint32_t incarnation) {
    port.sender_replaced(edge, incarnation);
  }
  /// The messages that the actor has taken and not released: how many, and the oldest one's step.
  struct Held {
    std::uint32_t count = 0, step = 0;
  };
  static Held held(const InputPort& port) {
    // Messages are taken in the order in which they came.
    const std::size_t taken = port.unreleased_.size() - port.queue_.size();
    return {static_cast<std::uint32_t>(taken), taken ? port.unreleased_.front().key.step : 0};
  }
  /// The step of the oldest message that is not released; none if there is none.
  static std::optional<std::uint32_t> oldest_step(const InputPort& port) {
    if (port.unreleased_.empty()) return std::nullopt;
    return port.unreleased_.front().key.step;
  }
  static std::size_t queued(const InputPort& port) { return port.queue_.size(); }
  /// The number of messages that deliver() dropped.
  static std::uint64_t dropped(const InputPort& port) { return port.dropped_; }

  /// Sets the incarnation that the headers of later messages carry.
  static void begin_incarnation(OutputPort& port, std::uint32_t incarnation) {
    port.incarnation_ = incarnation;
  }
  /// Frees a slot. A credit of an older incarnation is ignored.
  static void credit(OutputPort& port, const Credit& credit) { port.credit(credit); }
  /// The fence of a message that was sent, for those that are sent again.
  static void set_fence(OutputPort& port, const Header& header,
                        const std::shared_ptr<Work>& fence) {
    port.set_fence(header, fence);
  }
  /// The receiver of `edge` was replaced: the messages that it had not released, oldest first.
  static std::vector<Packet> unreleased(const OutputPort& port, std::uint32_t edge) {
    return port.unreleased(edge);
  }
};

}  // namespace troupe

#pragma once
// Inside the runtime: what it does with actors and their ports, and programs have no call for.

#include <utility>
#include <vector>

#include "runtime/flow/actor.h"

namespace troupe {

class RuntimeAccess {
 public:
  using Effects = Actor::Effects;
  /// What the calls since the last time left behind.
  static Effects take_effects(Actor& actor) { return std::exchange(actor.effects_, {}); }
  static void set_post(Actor& actor, std::function<void(Post)> post) {
    actor.post_ = std::move(post);
  }

  /// An edge with so many slots ends at this port.
  static void attach(InputPort& port, std::uint32_t edge, std::uint32_t slots) {
    port.attach(edge, slots);
  }
  static void attach(OutputPort& port, std::uint32_t edge, std::uint32_t slots) {
    port.attach(edge, slots);
  }

  /// Takes a message in. Drops older incarnations, answers repeated ones; throws Error{internal}
  /// if the edge's slots are exceeded.
  static void deliver(InputPort& port, Packet packet) { port.deliver(std::move(packet)); }
  /// The sender of `edge` was replaced: what it sent stays valid, but its slots are gone.
  static void sender_replaced(InputPort& port, std::uint32_t edge, std::uint32_t incarnation) {
    port.sender_replaced(edge, incarnation);
  }
  /// Messages that deliver() dropped.
  static std::uint64_t dropped(const InputPort& port) { return port.dropped_; }

  /// What is sent from now on is of this run and of this life of the actor.
  static void begin_incarnation(OutputPort& port, std::uint64_t run, std::uint32_t incarnation) {
    port.begin_incarnation(run, incarnation);
  }
  /// A slot is free again. One of an older incarnation is passed over.
  static void credit(OutputPort& port, const Credit& credit) { port.credit(credit); }
  /// The receiver of `edge` was replaced: everything that it had not released, oldest first.
  static std::vector<Packet> unreleased(const OutputPort& port, std::uint32_t edge) {
    return port.unreleased(edge);
  }
};

}  // namespace troupe

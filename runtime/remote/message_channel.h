#pragma once
// Internal to the runtime: short messages through a communicator.

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "runtime/remote/call_gate.h"
#include "runtime/transport/communicator.h"

namespace troupe::remote {

/// Messages to and from one process on the same host, in the order of sending. The sender writes
/// into the receiver's ring and wakes at most one thread there; the control plane would wake three.
/// A message travels in a frame of fixed size; a longer one travels as a tensor that precedes its
/// frame.
///
/// The control plane reports lost processes, so a frame that does not arrive because its sender is
/// lost is not an error here.
class MessageChannel {
 public:
  using OnMessage = std::function<void(std::string_view body)>;
  using OnDamage = std::function<void(const Error&)>;

  /// The communicator must keep the order of sending between two ranks, and outlive this object.
  MessageChannel(Communicator& communicator, int peer) : communicator_(communicator), peer_(peer) {}

  /// Begins to deliver, including messages that arrived earlier. Calls back as Work::then does, one
  /// message at a time, until the gate is closed.
  void open(CallGate& gate, OnMessage on_message, OnDamage on_damage);
  void send(const std::string& body);  ///< any thread

 private:
  void listen();
  // Both return whether frames may follow.
  bool take(const Receive& frame, const Status& status);
  bool take_long(std::uint64_t number, std::size_t length);
  bool failed(const Error& error);  ///< returns false

  Communicator& communicator_;
  const int peer_;
  std::atomic<std::uint64_t> sent_{0};
  // Of one callback at a time.
  CallGate* gate_ = nullptr;
  OnMessage on_message_;
  OnDamage on_damage_;
  std::uint64_t received_ = 0;
};

}  // namespace troupe::remote

#pragma once
// Internal to the runtime: short messages through a communicator.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/transport/communicator.h"

namespace troupe::remote {

/// Messages to and from one process on the same host, in the order of sending. The sender writes
/// into the receiver's ring and wakes at most one thread there; the control plane would wake three.
/// A message travels in a frame of fixed size; a longer one travels as a tensor that precedes its
/// frame.
///
/// The control plane reports lost processes: a frame that does not come because its sender is gone
/// is no error here.
class ShmMessageChannel {
 public:
  using OnMessage = std::function<void(std::string_view body)>;
  using OnDamage = std::function<void(const Error&)>;

  /// The communicator must keep the order of sending between two ranks, and outlive this object.
  ShmMessageChannel(Communicator& communicator, int peer);
  ~ShmMessageChannel();

  /// Begins to deliver. Earlier messages have waited. Calls back as Work::then does, one message at
  /// a time.
  void open(OnMessage on_message, OnDamage on_damage);
  /// Ends the channel in both directions. The peer receives that nothing follows.
  void close();
  void send(const std::string& body);  ///< any thread; not empty

 private:
  class Listener;
  void send_frame(const std::string& body);

  Communicator& communicator_;
  const int peer_;
  std::atomic<std::uint64_t> next_{0};
  std::shared_ptr<Listener> listener_;
};

}  // namespace troupe::remote

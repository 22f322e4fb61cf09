#pragma once
// Inside the runtime: short messages through a communicator.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "runtime/transport/communicator.h"

namespace troupe::remote {

/// Messages to and from one process whose memory is shared. The control plane wakes a thread
/// of the sender and two of the receiver for a message, and answers it; here the sender writes into
/// the ring itself and at most one thread of the receiver wakes up. A message travels in a frame of
/// fixed size; what is too long for it goes before it as a tensor of its own.
///
/// Who sends it in order is heard in that order. Losses are the control plane's to report: a frame
/// that does not come because its sender is gone is not an error here.
class ShmMessageChannel {
 public:
  using OnMessage = std::function<void(const std::string& body)>;
  using OnDamage = std::function<void(const Error&)>;

  /// The communicator must keep the order of sending between two ranks, and outlive this.
  ShmMessageChannel(Communicator& communicator, int peer);
  ~ShmMessageChannel();

  /// What came before waits for it. Calls back as Work::then does.
  void open(OnMessage on_message, OnDamage on_damage);
  /// Says that nothing follows, and hears nothing any more.
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

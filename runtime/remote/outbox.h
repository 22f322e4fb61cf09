#pragma once
// Internal to the runtime: the messages that leave for other processes.

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/control/member.h"
#include "runtime/remote/data_plane.h"
#include "runtime/remote/message_channel.h"

namespace troupe::remote {

/// Sends messages to each process through shared memory if possible, and over the control plane
/// otherwise. All messages to one process take the same path, which keeps their order.
///
/// After the loss of any process the data plane ends in one process after the other, and messages
/// in its channels may be lost. From then on run messages take the control plane, which also
/// repeats the final ones; packets and credits, which have no use any more, stay on their path.
/// Thread-safe.
class Outbox {
 public:
  Outbox(Member& member, const DataPlane& data_plane);

  /// A packet or a credit.
  void send(std::uint32_t to, std::string body);
  /// `is_final`: the receiver's run cannot end without it, and it may arrive twice.
  void send_run_message(std::uint32_t to, std::string body, bool is_final);
  /// A process is lost.
  void leave_channels();

  /// The channel to a process; null if the control plane carries its messages.
  MessageChannel* channel(std::uint32_t process) const { return channels_[process].get(); }

 private:
  Member& member_;
  std::vector<std::unique_ptr<MessageChannel>> channels_;  ///< by process
  std::mutex mutex_;                                       ///< of what follows
  bool process_is_lost_ = false;
  std::vector<std::vector<std::string>> final_;  ///< by process; sent through channels
};

}  // namespace troupe::remote

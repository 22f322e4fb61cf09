#pragma once
// Internal to the runtime: the messages that leave for other processes.

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/control/member.h"
#include "runtime/remote/data_plane.h"
#include "runtime/remote/shm_message_channel.h"

namespace troupe::remote {

/// Sends messages to each process through shared memory, where it reaches the process, else over
/// the control plane. All messages to one process take the same path, which keeps their order.
///
/// After the loss of any process the data plane ends in one process after the other, and messages
/// in its channels may be lost. From then on all messages take the control plane, which also
/// repeats the final ones. Thread-safe.
class Outbox {
 public:
  Outbox(Member& member, const DataPlane& data_plane);

  void send(std::uint32_t to, std::string body);
  /// A message without which the receiver's run cannot end. It may arrive twice.
  void send_final(std::uint32_t to, std::string body);
  /// A process is lost.
  void leave_shared_memory();

  /// The channel to a process; null if the control plane carries its messages.
  ShmMessageChannel* channel(std::uint32_t process) const { return channels_[process].get(); }
  void close();

 private:
  Member& member_;
  std::vector<std::unique_ptr<ShmMessageChannel>> channels_;  ///< by process
  std::atomic<bool> process_is_lost_{false};
  std::mutex mutex_;
  std::vector<std::vector<std::string>> final_;  ///< by process; sent through channels
};

}  // namespace troupe::remote

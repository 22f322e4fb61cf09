#pragma once
// Internal to the runtime: the messages between the CAF actors of a process, besides Packet,
// Credit, Commit and the reports ActorFailed, ActorStatus and StopRequest, which they
// exchange as they are.

#include <any>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/flow/caf_base.h"
#include "runtime/flow/run_messages.h"
#include "runtime/work.h"

namespace troupe::flow {

/// Where to send messages for an actor.
struct ActorAddress {
  caf::actor actor;  ///< null if it lives in another process
  std::uint32_t incarnation = 0;
};

// To an actor host.

/// Starts an incarnation.
struct Start {
  std::shared_ptr<const std::vector<ActorAddress>> addresses;  ///< by actor
};
/// A neighbour was replaced.
struct Replaced {
  std::size_t actor = 0;
  ActorAddress address;
};
struct PostedWork {
  Post work;
};
/// The actor continues after it has yielded its thread.
struct Resume {};
/// A fence of the actor's stream has passed.
struct FencePassed {};
/// The run has ended with so many steps.
struct Stop {
  std::uint32_t steps = 0;
};

// To the process supervisor.

struct Begin {};
/// The vote's state is complete when the fence has passed; null if it has.
struct Voted {
  Vote vote;
  WorkPtr fence;
};
struct EmittedEvents {
  std::vector<std::any> events;
};
/// The answer to Stop.
struct FinalReport {
  std::size_t actor = 0;
  ActorReport report;
  std::vector<TraceEvent> trace;
};
/// What the actors of this process have done since the last check.
enum class Activity : std::uint8_t {
  some,
  none,
  stuck,  ///< nothing since the check before it either, and nobody has a poster to wake them
};
/// Comes at intervals.
struct CheckProgress {
  Activity activity = Activity::some;
};
/// No message is in flight, and the run has not ended.
struct Deadlocked {};
/// From another process.
struct RemoteRunMessage {
  std::uint32_t from = 0;
  RunMessage message;
};
struct LostProcess {
  std::uint32_t process = 0;
  Error reason;
};

}  // namespace troupe::flow

// CAF passes these by reference within a process and never serialises them.
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::Packet)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::Credit)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::Commit)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::ActorFailed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::ActorStatus)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::flow::Start)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::flow::Replaced)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::flow::PostedWork)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::flow::Resume)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::flow::FencePassed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::flow::Stop)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::flow::Begin)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::flow::Voted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::flow::EmittedEvents)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::flow::FinalReport)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::StopRequest)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::flow::CheckProgress)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::flow::Deadlocked)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::flow::RemoteRunMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::flow::LostProcess)

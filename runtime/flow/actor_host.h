#pragma once
// Internal to the runtime: the CAF actor that runs one incarnation of a graph's actor. Files that
// name CAF: caf_base.h, local_messages.h, run_state.h, actor_host.*, process_supervisor.*,
// orders.cpp and run.cpp.

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/flow/run_state.h"
#include "runtime/flow/runtime_access.h"
#include "runtime/flow/time_account.h"
#include "runtime/work.h"

namespace troupe::flow {

/// Effects of an actor with a stream that leave when the fence has passed.
struct HeldBack {
  WorkPtr fence;
  RuntimeAccess::Effects effects;
};

/// An action whose work a device does and times.
struct TimedAction {
  DeviceRangePtr range;
  std::optional<std::size_t> event;  ///< in the trace
};

/// The state of an actor host: one incarnation of a graph's actor.
struct HostedActor {
  std::shared_ptr<RunState> run;
  std::uint32_t index = 0;  ///< in the graph
  std::unique_ptr<Actor> actor;
  DeviceStream* stream = nullptr;  ///< of the actor
  caf::actor supervisor;
  std::vector<ActorAddress> addresses;  ///< by actor
  std::uint32_t incarnation = 0;
  bool started = false;
  bool resumes = false;            ///< a Resume is in flight; no action before it arrives
  bool stops = false;              ///< Stop has come; it ends when nothing is held back
  std::deque<HeldBack> held_back;  ///< oldest first
  std::deque<TimedAction> timed;   ///< those whose times are not known, oldest first
  TimeAccount time;
  ActorReport report;  ///< without its time
  std::vector<TraceEvent> trace;
  Waiting waiting = Waiting::other;
};

using ActorHost = CafActor<HostedActor>;

/// The behavior of an actor host. `actor` is passed in a box since CAF copies the arguments of
/// spawn.
caf::behavior host_actor(ActorHost* self, std::shared_ptr<RunState> run, std::uint32_t index,
                         std::uint32_t incarnation,
                         const std::shared_ptr<std::unique_ptr<Actor>>& actor,
                         caf::actor supervisor);

/// Returns each Resume to its sender. An actor that yields sends Resume here: other actors get its
/// thread meanwhile. A Resume that it sent to itself would be handled at once.
caf::behavior yield_actor(CafBase* self);

}  // namespace troupe::flow

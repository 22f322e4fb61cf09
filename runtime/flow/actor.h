#pragma once
#include <any>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/flow/port.h"

namespace troupe {

/// The state that an actor votes for; the runtime passes it to `restore` after a failure.
using CommittedState = std::shared_ptr<const void>;

/// Commits a step: every voting actor has voted for it. If an actor ends the run before the next
/// step, the newest commit is sent again, as the last.
struct Commit {
  std::uint32_t step = 0;       ///< the committed step (the first is 0)
  bool snapshot = false;        ///< send the state to the checkpoint writers
  bool last = false;            ///< no step follows
  bool stop_requested = false;  ///< the user requested a stop

  static void members(auto& self, auto& visit) {
    visit(self.step);
    visit(self.snapshot);
    visit(self.last);
    visit(self.stop_requested);
  }
};

/// The vote of an actor for a step, or for the end of the run before this step.
struct Vote {
  std::uint32_t actor = 0;
  std::uint32_t incarnation = 0;
  std::uint32_t step = 0;
  bool ends = false;          ///< see Actor::end_before
  CommittedState state = {};  ///< stays in the actor's process: not serialised

  static void members(auto& self, auto& visit) {
    visit(self.actor);
    visit(self.incarnation);
    visit(self.step);
    visit(self.ends);
  }
};

/// See Actor::accept_snapshots and Actor::finish.
struct ActorStatus {
  std::uint32_t actor = 0;
  std::optional<bool> accepts_snapshot;
  bool finished = false;

  static void members(auto& self, auto& visit) {
    visit(self.actor);
    visit(self.accepts_snapshot);
    visit(self.finished);
  }
};

/// Names one action in a trace.
struct ActionLabel {
  std::string_view name;  ///< "F", "B", "load", …; a literal
  MessageKey key;
};

/// Why an actor is not ready.
enum class Waiting : std::uint8_t { input, credit, other };

/// One way in which an actor can fire, for the liveness check. Counts are of messages on each edge
/// of the port.
struct Transition {
  struct In {
    const InputPort* port;
    std::uint32_t count = 1;
  };
  struct Out {
    const OutputPort* port;
    std::uint32_t count = 1;
  };
  std::string name;
  std::vector<In> takes;
  std::vector<In> releases;  ///< messages whose slots this transition frees
  std::vector<Out> fills;
};
/// A place of a Petri net inside an actor. The transition `from` adds `fills` tokens, the
/// transition `to` removes `takes` tokens, and the place holds at most `capacity` tokens.
struct InternalPlace {
  std::size_t from = 0, to = 0;  ///< indices of transitions
  std::uint32_t fills = 1, takes = 1;
  std::uint32_t capacity = 1;
};
struct FiringRules {
  std::vector<Transition> transitions;
  std::vector<InternalPlace> internal_places;
};

class DeviceStream;  // runtime/device/device_stream.h

/// Work for an actor, handed to it by another thread through `poster()`.
using Post = std::function<void(Actor&)>;

/// Base of every actor: a plain object that handles one message at a time. It refers to its ports,
/// but to no thread and to no other actor. The runtime runs it inside an actor of CAF.
///
/// The runtime calls `ready()` after each arrival, and `act()` if `ready()` returns true. `act()`
/// takes messages from inputs and sends messages on outputs. The runtime dispatches the messages,
/// releases and votes after `act()` has returned. If `act()` throws, the runtime creates the next
/// incarnation with the graph's factory. The next incarnation gets the last committed state, and
/// its neighbours resend the messages that the previous incarnation had not released.
///
/// An actor with a stream (`stream()`) returns before the work that it gave to a device is done.
/// Its messages to actors of this process with streams of the same backend leave at once, with a
/// fence. If errors of the device end the run, a vote leaves at once too, unless other messages,
/// events or a status of this actor still wait. All other effects leave in order when the fence has
/// passed. If the work fails, the actor fails as if `act()` had thrown. If the actor fails before
/// its releases have left, its next incarnation receives these messages again, although others may
/// use their results, and their step may be committed. Handlers do not read results of the device:
/// they send them to an actor without a stream.
class Actor {
 public:
  Actor() = default;
  virtual ~Actor() = default;
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;

  /// True if `act` has something to do. A pure function of ports and members, without a clock.
  /// Default: every input has a message and every output a free slot.
  virtual bool ready() const;
  /// Performs one action. Must not block; arithmetic is the only long work.
  virtual ActionLabel act() = 0;
  /// Why `ready()` is false; used only to report how the actor spent its time.
  virtual Waiting waiting() const;

  /// The actor's own stream, always the same one; null if its work is done when its functions
  /// return.
  virtual DeviceStream* stream() const { return nullptr; }

  /// A step was committed. The next incarnation of a failed actor receives the newest commit again.
  virtual void on_commit(const Commit&) {}
  /// True if a step needs this actor's vote.
  virtual bool votes() const { return false; }
  /// True if the actor may have work that is not part of a step, such as an evaluation or a
  /// checkpoint. The run does not end before this actor calls `finish`. When all actors restart the
  /// open step, this actor continues without a restart.
  virtual bool outlives_steps() const { return false; }
  /// True if the actor writes snapshots and calls accept_snapshots().
  virtual bool takes_snapshots() const { return false; }
  /// True if all actors must restart the open step when this actor fails, because it had released
  /// messages whose data are lost with it.
  virtual bool restarts_step() const { return false; }
  /// Called on the first incarnation of each actor when a run begins, before `restore`.
  virtual void begin_run() {}
  /// Called on each incarnation before any message: `state` is the last committed state of the
  /// previous incarnation (null if there is none), `steps` the number of committed steps. Throws if
  /// there is a state and the function is not overridden.
  virtual void restore(const CommittedState& state, std::uint32_t steps);
  /// The reason why `sender` cannot be connected to `input`; empty if it can. Graph::connect calls
  /// it on the prototypes, and refuses the edge with this reason.
  virtual std::string refusal(const InputPort& input, const Actor& sender) const;
  /// How the actor fires; default: one transition over all ports.
  virtual FiringRules firing_rules() const;

  const std::vector<InputPort*>& inputs() const { return inputs_; }
  const std::vector<OutputPort*>& outputs() const { return outputs_; }

 protected:
  /// Votes for `step`. `state` becomes the committed state of this actor when the step is
  /// committed.
  void vote(std::uint32_t step, CommittedState state) {
    effects_.vote = Vote{.step = step, .state = std::move(state)};
  }
  /// Instead of a vote for `step`: the run ends with the steps before it. The final snapshot and
  /// report are those of a run of `step` steps. Has no effect for step 0.
  void end_before(std::uint32_t step) { effects_.vote = Vote{.step = step, .ends = true}; }
  /// Reports an event to the caller of the run (RunOptions::on_event).
  void emit(std::any event) { effects_.events.push_back(std::move(event)); }
  /// See outlives_steps().
  void finish() { status().finished = true; }
  /// A writer (takes_snapshots) calls this when it becomes able, or unable, to take the next
  /// snapshot. Commits request a snapshot only when all writers can take it.
  void accept_snapshots(bool yes) { status().accepts_snapshot = yes; }
  /// A function that hands work to this actor from any thread; empty in the constructor. Work for
  /// an incarnation that has ended is dropped. While a copy of it exists, the runtime takes no run
  /// for deadlocked: keep none longer than work is to come.
  std::function<void(Post)> poster() const {
    return make_poster_ ? make_poster_() : std::function<void(Post)>();
  }

 private:
  friend class InputPort;
  friend class OutputPort;
  friend class RuntimeAccess;
  /// The effects of an action. The runtime dispatches them after the action has returned.
  struct Effects {
    std::vector<Packet> packets;
    std::vector<Credit> credits;
    std::optional<Vote> vote;
    std::vector<std::any> events;
    std::optional<ActorStatus> status;

    bool empty() const {
      return packets.empty() && credits.empty() && !vote && events.empty() && !status;
    }
    void clear() {  // keeps memory for the next action
      packets.clear();
      credits.clear();
      vote.reset();
      events.clear();
      status.reset();
    }
  };
  ActorStatus& status() { return effects_.status ? *effects_.status : effects_.status.emplace(); }

  std::vector<InputPort*> inputs_;
  std::vector<OutputPort*> outputs_;
  Effects effects_;
  std::function<std::function<void(Post)>()> make_poster_;
};

}  // namespace troupe

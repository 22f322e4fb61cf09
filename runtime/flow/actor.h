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

/// What an actor gave to the vote on a step; handed back to `restore` after a failure.
using CommittedState = std::shared_ptr<const void>;

/// All actors that vote are ready with a step: it counts from now on.
struct Commit {
  std::uint32_t step = 0;       ///< the step that is now whole (the first is 0)
  bool snapshot = false;        ///< send the state to whoever writes checkpoints
  bool last = false;            ///< no step follows
  bool stop_requested = false;  ///< the user asked to end here
};

/// One thing that an actor did: what a trace shows.
struct ActionLabel {
  std::string_view name;  ///< "F", "B", "load", …; a literal
  MessageKey key;
};

/// Why an actor does nothing.
enum class Waiting : std::uint8_t { input, credit, other };

/// One way in which an actor can fire, for the check that a graph cannot stand still. Counts are
/// of messages on each edge of the port.
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
  std::vector<In> releases;  ///< whose slots go back in this transition
  std::vector<Out> fills;
};
/// A place inside an actor between two of its transitions: `from` puts `fills` tokens in, `to`
/// takes `takes` out; at most `capacity` fit.
struct InternalPlace {
  std::size_t from = 0, to = 0;  ///< indices of transitions
  std::uint32_t fills = 1, takes = 1;
  std::uint32_t capacity = 1;
};
struct FiringRules {
  std::vector<Transition> transitions;
  std::vector<InternalPlace> internal_places;
};

/// Work that an actor wants done with itself from another thread: handed to `post`.
using Post = std::function<void(Actor&)>;

/// Base of every actor: a plain object that handles one thing at a time. It knows no threads and
/// no other actor, only its ports; the runtime runs it as an actor of CAF.
///
/// The runtime asks `ready()` after each arrival and then calls `act()`, which takes from inputs
/// and sends on outputs. What `act` sends, releases and votes leaves only if it returns; if it
/// throws, the actor is replaced by a new one from the graph's factory, which gets its last
/// committed state and, from its neighbours' slots, the messages it had not released.
class Actor {
 public:
  Actor() = default;
  virtual ~Actor() = default;
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;

  /// True if `act` has something to do. A pure decision from ports and members, without a clock.
  /// Default: every input has a message and every output a free slot.
  virtual bool ready() const;
  /// Does one thing. Never blocks on anything but arithmetic.
  virtual ActionLabel act() = 0;
  /// Why `ready()` is false; read for the time split only.
  virtual Waiting waiting() const;

  /// A step became whole. A replacement hears of the newest commit again.
  virtual void on_commit(const Commit&) {}
  /// True if a step needs this actor's vote.
  virtual bool votes() const { return false; }
  /// True if the run may end only after this actor called `finish`.
  virtual bool holds_run_open() const { return false; }
  /// True if it is told by accept_snapshots() when the next snapshot may be taken.
  virtual bool takes_snapshots() const { return false; }
  /// True if the run must begin the step again when this actor dies, since others cannot give it
  /// back what it had collected.
  virtual bool restarts_step() const { return false; }
  /// Called on the first life of each actor when a run begins, before `restore`.
  virtual void begin_run() {}
  /// Called on a new actor in place of a dead one, before any message: `state` is what the former
  /// one last voted (null if none), `steps` how many steps are whole.
  virtual void restore(const CommittedState& state, std::uint32_t steps);
  /// How it fires; default: one transition over all ports.
  virtual FiringRules firing_rules() const;

  const std::vector<InputPort*>& inputs() const { return inputs_; }
  const std::vector<OutputPort*>& outputs() const { return outputs_; }

 protected:
  /// Votes for `step`, with the state that will be this actor's when it is committed.
  void vote(std::uint32_t step, CommittedState state) {
    effects_.vote.emplace(step, std::move(state));
  }
  /// Tells the one who started the run something (RunOptions::on_event).
  void emit(std::any event) { effects_.events.push_back(std::move(event)); }
  /// See holds_run_open().
  void finish() { effects_.finished = true; }
  /// A writer (takes_snapshots) says whether it can take the next one; commits ask for one only
  /// when all writers can.
  void accept_snapshots(bool yes) { effects_.accepts_snapshot = yes; }
  /// Hands work to this actor from any thread, and also after it is gone (then it is dropped).
  std::function<void(Post)> poster() const { return post_; }

 private:
  friend class InputPort;
  friend class OutputPort;
  friend class RuntimeAccess;
  /// What an action leaves behind, sent by the runtime when the action has ended well.
  struct Effects {
    std::vector<Packet> packets;
    std::vector<Credit> credits;
    std::optional<std::pair<std::uint32_t, CommittedState>> vote;
    std::vector<std::any> events;
    std::optional<bool> accepts_snapshot;
    bool finished = false;
  };

  std::vector<InputPort*> inputs_;
  std::vector<OutputPort*> outputs_;
  Effects effects_;
  std::function<void(Post)> post_;
};

}  // namespace troupe

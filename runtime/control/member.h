#pragma once
// One process's place in the world: its rank, its peers, and messages to them.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "runtime/control/counters.h"
#include "runtime/control/job_key.h"
#include "runtime/control/messaging.h"
#include "runtime/error.h"
#include "runtime/transport/store.h"

namespace troupe {

struct MemberOptions {
  JobKey key;
  std::string coordinator;  ///< tcp://HOST:PORT
  std::string run;          ///< the job's name; the coordinator's must be the same
  std::optional<int> rank;  ///< none: the coordinator chooses, by host and local rank
  int size = 1;             ///< of the world
  int local_rank = 0;       ///< among the processes of this host
  int restart = 0;          ///< how often the launcher has started the job again
  std::string host;         ///< empty: the system's host name
  std::string interface;    ///< to listen on; empty: the one towards the coordinator
  std::chrono::milliseconds timeout{30'000};  ///< all other times derive from it
  /// Asked while the coordinator cannot be reached: where it is now (`coordinator` if unset).
  std::function<std::string()> find_coordinator;
  /// Gives up joining, with Error{refused}, unless there is an answer already.
  std::stop_token stop;
  /// For many members in one process; by default each has its own.
  std::shared_ptr<MessagingContext> messaging;
};

/// What the processes of one host share.
struct HostInfo {
  std::string name;
  std::string address;   ///< where its processes listen
  std::string identity;  ///< boot id and network namespace: equal means one machine, one loopback
};

struct PeerInfo {
  int rank = 0;
  std::shared_ptr<const HostInfo> on;
  int port = 0;
  int pid = 0;

  const std::string& host() const { return on->name; }
  const std::string& address() const { return on->address; }
  const std::string& identity() const { return on->identity; }
};

/// A process that the job has to do without.
struct PeerLost {
  static constexpr int coordinator = -1;

  int rank = coordinator;
  std::string host;
  int pid = 0;
  std::string reason;  ///< "its process ended", "no sign of life for 30s"
};

std::string to_string(const PeerLost& lost);

/// Member of a world that a Coordinator holds together. One a process, with a thread of its own
/// which receives and runs the callbacks; what is sent goes out on the thread that sends it. Every
/// function may be called from any thread, those that wait (barrier, leave, the store) not from a
/// callback.
class Member {
 public:
  /// Waits until the world is whole. Otherwise an Error{timed_out} that names the missing ranks and
  /// the hosts that came (to the first rank that came; the others get the same as peer_lost, so
  /// that one tells the user), or Error{refused}: another run, rank, size, version, or the wrong
  /// key; Error{bad_options} or Error{io} for a place or an interface that
  /// there is not.
  static Result<std::unique_ptr<Member>> join(const MemberOptions& options);

  /// Whether join() failed because the coordinator, or whoever is there, has another key. Whatever
  /// else is refused is so by a coordinator with the same one.
  static bool is_wrong_key(const Error& error);
  static constexpr const char* wrong_key = "the key does not fit";  ///< how its message begins

  /// Without leave() before it, the others are told that this process is lost.
  ~Member();

  int rank() const;
  int size() const;
  std::uint32_t generation() const;
  const std::vector<PeerInfo>& peers() const;  ///< by rank, this process included
  const std::string& endpoint() const;         ///< where this process listens

  /// Sends to another rank, connecting when first needed, and does not wait for it. Messages of one
  /// sender to one receiver arrive in order (of the calls, where threads send at the same time: of
  /// each thread) and exactly once, whatever happens to connections, unless one of the two is
  /// reported lost. Nothing bounds what waits here: credits do.
  /// Throws Error{bad_graph} for its own or an impossible rank, or more than 64 MiB.
  void send(int to, std::string body);

  using OnMessage = std::function<void(int from, std::string body)>;
  using OnLost = std::function<void(const PeerLost& lost)>;

  /// Names who is called from now on, on the member's thread; what came before waits for it. A
  /// callback that does not return counts as a hang of this process; one that throws ends its
  /// membership. `on_lost` hears of each rank once, of its own when the others were told that it is
  /// lost.
  void open(OnMessage on_message, OnLost on_lost);

  /// The job's store, kept by the coordinator. Its waiting calls end when a member is lost.
  Store& store();

  /// Waits until every rank has come to the barrier of that name. Error{peer_lost} when one cannot
  /// come any more, Error{timed_out} after the timeout.
  Status barrier(const std::string& name);

  /// Waits until everything sent has arrived, and says goodbye. Nothing is sent or received after.
  Status leave();
  /// Says goodbye without waiting for what members that cannot be reached were sent.
  Status leave_at_once(std::chrono::milliseconds patience);

  /// Where the coordinator was that this process has lost; empty while it is not lost. It does not
  /// come back.
  std::string lost_coordinator() const;

  /// Whether the coordinator has said that this process counts as lost: the others were told so.
  bool is_given_up() const;

  ControlCounters counters() const;

 private:
  class Implementation;
  explicit Member(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace troupe

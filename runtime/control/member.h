#pragma once
// The membership of a process in a world: its rank, its peers, and messages to them.

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
  std::optional<int> rank;  ///< none: the coordinator assigns one, by host and local rank
  int size = 1;             ///< of the world
  int local_rank = 0;       ///< among the processes of this host
  int restart = 0;          ///< how often the launcher has restarted the job
  std::string host;         ///< empty: the system's host name
  std::string interface;    ///< to listen on; empty: the one towards the coordinator
  std::chrono::milliseconds timeout{30'000};  ///< all other times derive from it
  /// Called while the coordinator cannot be reached: returns its current endpoint (`coordinator` if
  /// unset).
  std::function<std::string()> find_coordinator;
  /// Ends joining with Error{refused}, unless the coordinator has answered.
  std::stop_token stop;
  /// Shared by the members of one process; by default each has its own.
  std::shared_ptr<MessagingContext> messaging;
};

/// What the processes of one host share.
struct HostInfo {
  std::string name;
  std::string address;   ///< where its processes listen
  std::string identity;  ///< boot id and network namespace: equal means one machine, one loopback
};

struct ProcessInfo {
  int rank = 0;
  std::shared_ptr<const HostInfo> on;
  int port = 0;
  int pid = 0;

  const std::string& host() const { return on->name; }
  const std::string& address() const { return on->address; }
  const std::string& identity() const { return on->identity; }
};

/// A process that is lost.
struct PeerLost {
  static constexpr int coordinator = -1;

  int rank = coordinator;
  std::string host;
  int pid = 0;
  std::string reason;  ///< "its process ended", "no heartbeat for 30s"
};

std::string to_string(const PeerLost& lost);

/// A member of a world. There is one in a process. Its own thread receives messages and runs the
/// callbacks; a message is sent on the thread that sends it. Thread-safe; callbacks must not call
/// the functions that wait (barrier, leave, the store).
class Member {
 public:
  /// Waits until all members have joined. Error{timed_out} names the missing ranks and the hosts
  /// that joined; only the first rank that joined gets it, the others get the same text as
  /// Error{peer_lost}, so that one process reports it. Error{wrong_key} if the coordinator, or
  /// another program on its port, has another key. Error{refused} for another run, rank, size or
  /// version, from a coordinator with the same key. Error{bad_options} or Error{io} for an endpoint
  /// or interface that does not exist.
  static Result<std::unique_ptr<Member>> join(const MemberOptions& options);

  /// Without leave() before it, this process counts as lost.
  ~Member();

  int rank() const;
  int size() const;
  std::uint32_t generation() const;
  const std::vector<ProcessInfo>& processes() const;  ///< by rank, this process included
  const std::string& endpoint() const;                ///< where this process listens

  /// Sends to another rank without waiting for it; connects when first needed. Messages from one
  /// process to another arrive exactly once and in the order of each sending thread, even if
  /// connections break, unless one of the two is lost. The number of waiting messages is not
  /// bounded here, but by the credits of the edges.
  /// Throws Error{bad_graph} for its own or an impossible rank, or more than 64 MiB.
  void send(int to, std::string body);

  using OnMessage = std::function<void(int from, std::string body)>;
  using OnLost = std::function<void(const PeerLost& lost)>;

  /// Sets the callbacks, which the member's thread calls; earlier messages wait for it. A callback
  /// that does not return makes this process count as lost; one that throws ends its membership.
  /// `on_lost` is called once for each lost rank, also for this one if the coordinator has declared
  /// it lost.
  void open(OnMessage on_message, OnLost on_lost);

  /// The job's store, which the coordinator keeps. Its waits end when a member is lost.
  Store& store();

  /// Waits until every rank has reached the barrier of this name. Error{peer_lost} if one of them
  /// has left or is lost, Error{timed_out} after the timeout.
  Status barrier(const std::string& name);

  /// Waits until all sent messages have arrived, and leaves the world.
  Status leave();
  /// Leaves without waiting for messages to members that cannot be reached.
  Status leave_at_once(std::chrono::milliseconds patience);

  /// The endpoint of the coordinator if it is permanently lost; else empty.
  std::string lost_coordinator() const;

  /// Whether the coordinator has declared this process lost.
  bool is_given_up() const;

  ControlCounters counters() const;

 private:
  class Implementation;
  explicit Member(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace troupe

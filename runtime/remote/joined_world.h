#pragma once
// How a program that a launcher has started in several processes becomes one run.

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "runtime/flow/run.h"
#include "runtime/remote/transport_options.h"
#include "runtime/world/world.h"

namespace troupe {

class DataPlane;
class Member;
class Membership;
class Store;

/// The processes of a run, as one of them sees them. Used by one thread.
///
///     const auto world = JoinedWorld::join({}, stop);  // null when no launcher started it
///     RunOptions options{.stop = stop};
///     if (world) world->connect(graph, options);
///     const auto report = run(graph, options);
///     if (world) world->leave();
class JoinedWorld {
 public:
  /// Joins the world that the environment describes, binds this process to its share of the node's
  /// cores, and waits until all processes are here. Null if no launcher started this process as one
  /// of several. Throws Error: usage for variables that contradict each other, timed_out naming the
  /// missing process, refused after `stop` is requested, which run_main treats as a stopped run.
  static std::unique_ptr<JoinedWorld> join(const TransportOptions& options = {},
                                           std::stop_token stop = {});
  static std::unique_ptr<JoinedWorld> join(const World& world, const Environment& environment,
                                           const TransportOptions& options = {},
                                           std::stop_token stop = {});
  /// Without leave() before it, the others consider this process lost.
  ~JoinedWorld();

  const World& world() const { return world_; }
  std::uint32_t process() const { return static_cast<std::uint32_t>(world_.rank); }
  std::uint32_t processes() const { return static_cast<std::uint32_t>(world_.size); }
  /// Whether this is process 0: the one that decides, and that receives all reports.
  bool leads() const { return world_.rank == 0; }
  /// "4 processes on 2 hosts (a: 0-1, b: 2-3), shared memory within a host, Gloo between, started
  /// by slurm".
  std::string heading() const;

  /// Waits for the others, connects to them, and sets what `run` must know: process, processes,
  /// bridge and deferral. Once per world, even if it failed; the graph must outlive the
  /// run. Throws Error: bad_graph where it is not the same in all processes
  /// (runtime/remote/run_description.h), peer_lost where one is lost meanwhile, usage the second
  /// time.
  void connect(const Graph& graph, RunOptions& options);

  /// What all processes see: to agree on something before the run.
  Store& store();
  Member& member();

  /// Leaves the world when all processes have reached the end of the run. Ends the threads and
  /// connections that connect() created; tensors that the program still holds stay valid.
  void leave();

  /// Ends without leave(). If the coordinator is in this process, it waits until the other
  /// processes have ended, for at most one timeout, because they may still need the coordinator.
  void abandon();

 private:
  JoinedWorld(World world, TransportOptions options, std::unique_ptr<Membership> membership);
  void disconnect();

  World world_;
  TransportOptions options_;
  std::unique_ptr<Membership> membership_;
  bool connects_ = false;  ///< or has connected
  std::unique_ptr<DataPlane> data_plane_;
  std::shared_ptr<Bridge> bridge_;  ///< which uses it until it is closed
};

}  // namespace troupe

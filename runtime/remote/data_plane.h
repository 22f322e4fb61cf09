#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/control/member.h"
#include "runtime/remote/transport_options.h"
#include "runtime/transport/communicator.h"
#include "runtime/transport/topology.h"

namespace troupe {

/// The transports between the processes of a world. Throws as TransportTopology.
TransportTopology topology_of(const Member& member, const TransportOptions& options);

/// The data plane of one process: a communicator for each peer and device. Thread-safe. It has no
/// limit of its own, because the slots of the edges bound the tensors in flight. With a lower
/// limit, a send could wait for memory that only the waiting message would free. The destructor
/// ends the threads and connections; received tensors may outlive it.
class DataPlane {
 public:
  /// Every process calls it at the same time. `devices` are the devices whose tensors travel, with
  /// the same backends in the same order in every process. Error{bad_options} if the transport does
  /// not join all processes, Error{timed_out} with the missing rank.
  static Result<std::unique_ptr<DataPlane>> connect(Member& member, const TransportOptions& options,
                                                    const std::vector<Device>& devices = {
                                                        Device::cpu()});

  /// Both use the route for tensors on `device`, the device of the sent and of the received tensor.
  WorkPtr send(int to, Device device, std::uint64_t tag, Tensor tensor);
  ReceivePtr receive(int from, Device device, std::uint64_t tag, const TensorMeta& meta);

  /// How tensors on a device reach a process.
  struct Route {
    const Transport* transport = nullptr;  ///< null: to itself
    Communicator* communicator = nullptr;
    int rank = 0;  ///< of the process in the communicator
  };
  const Route& route(int process, Device device) const;

  /// For RunOptions::deferral.
  DeliveryDeferral& deferral() { return deferral_; }

  void abort(const Error& error);
  void fail(const Error& error);  ///< as abort, and notifies the peers

 private:
  void connect_routes(Member& member, const TransportOptions& options,
                      const TransportTopology& topology, Device device, std::size_t number);

  DeliveryDeferral deferral_;  ///< the communicators attach to it
  std::vector<std::unique_ptr<Communicator>> communicators_;
  struct DeviceRoutes {
    Device device;
    std::vector<Route> by_rank;  ///< of the world
  };
  std::vector<DeviceRoutes> routes_;
};

}  // namespace troupe

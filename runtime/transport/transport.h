#pragma once
// The registry of transports. To add one, add a folder here and a line in transports.cpp.

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "runtime/error.h"
#include "runtime/tensor/device.h"
#include "runtime/transport/communicator.h"
#include "runtime/transport/delivery_deferral.h"
#include "runtime/transport/store.h"

namespace troupe {

/// A process, as transports see it.
struct ProcessPlace {
  std::string host;      ///< its name, for messages
  std::string identity;  ///< equal for processes of one machine and network namespace:
                         ///< host_identity() in runtime/control/interface.h
};

/// The information with which a process connects to the others of a group.
struct TransportGroup {
  Store& store;
  int rank = 0, size = 1;
  Device device;           ///< where the tensors that are sent lie, and received ones are made
  std::string name = "g";  ///< in the store; unique for a group and generation
  std::chrono::milliseconds timeout{30'000};  ///< for the other ranks to come
  std::string address = "127.0.0.1";          ///< of this process, where the others reach it
  DeliveryDeferral* deferral = nullptr;       ///< to attach to, for arrivals that can wait
};

/// One way to carry tensors between processes.
struct Transport {
  std::string_view name;   ///< as a value of TransportOptions::transport: "shm"
  std::string_view title;  ///< in messages: "shared memory"
  /// Whether it joins two processes. It must be an equivalence: one communicator connects all
  /// processes that it joins.
  bool (*joins)(const ProcessPlace& one, const ProcessPlace& other);
  /// Whether it carries tensors of the memory of such a device.
  bool (*serves)(Device device);
  /// Whether it also suits the short messages of a run: it keeps the order of sends between two
  /// ranks, and a message costs less than one of the control plane.
  bool carries_messages;
  /// Every rank of the group calls it. It returns when all are connected, or an error that names
  /// the missing rank.
  Result<std::unique_ptr<Communicator>> (*connect)(const TransportGroup& group);
};

/// All transports, the preferred ones first.
std::span<const Transport* const> transports();

/// The transport of this name. Throws Error{bad_options} that lists the names.
const Transport& transport_named(std::string_view name);

}  // namespace troupe

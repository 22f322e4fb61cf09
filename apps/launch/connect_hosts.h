#pragma once
#include <memory>

#include "apps/launch/node_group.h"
#include "apps/launch/signals.h"

namespace troupe {

/// Connects to the launchers of the other hosts, if there are any, as NodeGroup::rendezvous does.
/// A signal ends the wait and the process, after the job's key file has been removed.
std::unique_ptr<NodeGroup> connect_hosts(const LaunchOptions& options, const Signals& signals);

}  // namespace troupe

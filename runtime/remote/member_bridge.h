#pragma once
#include <memory>

#include "runtime/control/member.h"
#include "runtime/flow/bridge.h"
#include "runtime/remote/data_plane.h"

namespace troupe {

/// The bridge of real runs: the data plane carries the elements of tensors, and shared memory or
/// the control plane carries the messages. A message is delivered when all of its tensors are here,
/// in the order of sending. Ranks of the member are the processes of the run. Member, data plane
/// and graph must exist until close() has returned, which waits for sends and deliveries under way.
std::shared_ptr<Bridge> make_member_bridge(Member& member, DataPlane& data_plane,
                                           const Graph& graph);

}  // namespace troupe

#pragma once
#include <memory>

#include "runtime/control/member.h"
#include "runtime/flow/bridge.h"
#include "runtime/remote/bulk.h"

namespace troupe {

/// The bridge between real processes: the bytes of tensors by the bulk plane, messages by it as
/// well where it is shared memory, else by the control plane. A message is delivered when all of
/// its tensors are there, and in the order in which its sender sent it. Ranks of the member are the
/// run's processes. Member, bulk plane and graph must be there until close(), which waits for who
/// sends or delivers at that moment; what is sent later goes nowhere.
std::shared_ptr<Bridge> make_member_bridge(Member& member, Bulk& bulk, const Graph& graph);

}  // namespace troupe

#pragma once
// Tensors from one process to another and an answer to each: what measurements of transports time.

#include <cstdint>
#include <functional>

#include "runtime/transport/communicator.h"

namespace troupe {

/// Sends the tensor `count` times to rank `to`, `ahead` of them before the first answer, and
/// returns after the last answer. The peer calls answer() at the same time. Throws what ends the
/// communicator. Uses the tags 1 and 2.
void send_answered(Communicator& ranks, int to, const Tensor& tensor, int count, int ahead);
/// The peer's half; calls `received` with each tensor.
void answer(Communicator& ranks, int from, const TensorMeta& meta, int count,
            const std::function<void(const Tensor&)>& received = {});

}  // namespace troupe

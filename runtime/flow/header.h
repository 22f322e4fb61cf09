#pragma once
#include <compare>
#include <cstdint>
#include <type_traits>

namespace troupe {

/// What a micro-batch is on its way for.
enum class Purpose : std::uint16_t { train, evaluate };

/// Place of a message in its run. Along an edge keys only grow, so a receiver knows a repeated
/// message (after a neighbour's restart) by its key.
struct MessageKey {
  std::uint32_t step = 0;
  Purpose purpose = Purpose::train;
  std::uint32_t micro_batch = 0;

  // NOLINTNEXTLINE(modernize-use-nullptr): no pointer in sight; a slip of clang-tidy's
  auto operator<=>(const MessageKey&) const = default;
};

/// What travels in front of every payload. Within a process it is copied as it is; between two its
/// fields travel as a message of protobuf (runtime/remote/flow.proto).
struct Header {
  std::uint64_t run = 0;            ///< RunOptions::run_id; messages of other runs are dropped
  std::uint32_t incarnation = 0;    ///< of the sending actor; older ones are dropped
  std::uint32_t edge = 0;           ///< index in the graph
  std::uint64_t sequence = 0;       ///< counts what this incarnation sent on this edge
  MessageKey key;                   ///< step, purpose, micro-batch (global index)
  std::uint32_t slot = 0;           ///< the sender's slot that the payload occupies
  std::uint32_t samples = 0;        ///< in this micro-batch
  std::uint32_t batch_samples = 0;  ///< in the whole step, over all replicas
  std::uint32_t micro_batches = 0;  ///< in the whole step, over all replicas
  std::uint64_t length = 0;         ///< bytes of the payload's tensors
};
static_assert(sizeof(Header) <= 64 && std::is_trivially_copyable_v<Header>);

}  // namespace troupe

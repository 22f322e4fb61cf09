#pragma once
#include <compare>
#include <cstdint>
#include <type_traits>

namespace troupe {

/// Whether a micro-batch trains or evaluates.
enum class Purpose : std::uint16_t { train, evaluate };
constexpr Purpose last_enumerator(Purpose) { return Purpose::evaluate; }

/// The position of a message in its run. Keys increase along an edge, so a receiver recognises by
/// its key a message that a replaced neighbour repeats.
struct MessageKey {
  std::uint32_t step = 0;
  Purpose purpose = Purpose::train;
  std::uint32_t micro_batch = 0;

  // NOLINTNEXTLINE(modernize-use-nullptr): a false positive of clang-tidy
  auto operator<=>(const MessageKey&) const = default;

  static void members(auto& self, auto& visit) {
    visit(self.step);
    visit(self.purpose);
    visit(self.micro_batch);
  }
};

/// Precedes every payload.
struct Header {
  std::uint32_t incarnation = 0;  ///< of the sending actor; older ones are dropped
  std::uint32_t receiver = 0;  ///< incarnation of the receiver; a process drops packets for others
  std::uint32_t edge = 0;      ///< index in the graph
  MessageKey key;              ///< step, purpose, micro-batch (global index)
  std::uint32_t slot = 0;      ///< the sender's slot that the payload occupies
  std::uint32_t samples = 0;   ///< in this micro-batch
  std::uint32_t batch_samples = 0;  ///< in the whole step, over all replicas
  std::uint32_t micro_batches = 0;  ///< in the whole step, over all replicas

  friend bool operator==(const Header&, const Header&) = default;

  static void members(auto& self, auto& visit) {
    visit(self.incarnation);
    visit(self.receiver);
    visit(self.edge);
    visit(self.key);
    visit(self.slot);
    visit(self.samples);
    visit(self.batch_samples);
    visit(self.micro_batches);
  }
};
static_assert(sizeof(Header) <= 48 && std::is_trivially_copyable_v<Header>);

}  // namespace troupe

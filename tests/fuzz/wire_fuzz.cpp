// Control messages: whatever the bytes, an envelope or nothing; and what is let through can be
// acted on: a session stays in order, a roster gives each rank once.

#include <cstdlib>
#include <set>

#include "runtime/control/detail/roster.h"
#include "runtime/control/detail/session.h"
#include "runtime/control/detail/wire.h"

namespace {

using namespace troupe;
using namespace troupe::control;

void receive(const wire::Envelope& envelope) {
  ControlCounters counters;
  Session session([](const std::string& frame) {
    if (!decode(frame)) std::abort();
  });
  wire::Envelope own;
  own.set_message("own");
  session.send({}, own, Clock::now());
  const bool taken = session.receive({}, envelope, counters, Clock::now());
  if (taken != (envelope.sequence() == 1 && envelope.acknowledged() <= 1)) std::abort();
  if (taken && session.receive({}, envelope, counters, Clock::now())) std::abort();
  session.maintain({}, Clock::now());
}

void join(const wire::Join& join) {
  constexpr int size = 3;
  Roster roster(join.run(), size);
  wire::Join other = join;
  other.set_rank(0);
  for (std::uint64_t session = 1; session <= size; ++session)
    (void)roster.admit(session == 2 ? join : other, session);
  (void)roster.timeout(std::chrono::seconds(1));
  if (!roster.is_whole()) return;
  const auto by_rank = roster.assign();
  if (std::set<std::uint64_t>(by_rank.begin(), by_rank.end()) != std::set<std::uint64_t>{1, 2, 3})
    std::abort();
  wire::Envelope envelope;
  envelope.set_version(wire_version);
  envelope.set_sequence(1);
  *envelope.mutable_welcome() = roster.welcome(by_rank);
  if (join.port() <= 65535 && !decode(encode(envelope))) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto envelope = decode({reinterpret_cast<const char*>(data), size});
  if (!envelope) return 0;
  if (envelope->has_refused()) (void)error_of(envelope->refused());
  if (envelope->version() != wire_version) return 0;
  if (!decode(encode(*envelope))) std::abort();
  receive(*envelope);
  if (envelope->has_join()) join(envelope->join());
  return 0;
}

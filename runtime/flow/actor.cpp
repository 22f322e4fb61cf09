#include "runtime/flow/actor.h"

#include <algorithm>

#include "runtime/error.h"

namespace troupe {

bool Actor::ready() const {
  return std::ranges::all_of(inputs_,
                             [](const InputPort* p) { return !p->connected() || p->ready(); }) &&
         std::ranges::all_of(outputs_, [](const OutputPort* p) { return p->has_slot(); });
}

Waiting Actor::waiting() const {
  const bool full =
      std::ranges::any_of(outputs_, [](const OutputPort* p) { return !p->has_slot(); });
  return full ? Waiting::credit : Waiting::input;
}

std::string Actor::refusal(const InputPort&, const Actor&) const { return {}; }

void Actor::restore(const CommittedState& state, std::uint32_t) {
  if (state)
    throw Error(ErrorCode::internal, "it votes for a state, but has no restore() to take it back",
                "override Actor::restore, or vote with a null state");
}

FiringRules Actor::firing_rules() const {
  Transition all{.name = "fire", .takes = {}, .releases = {}, .fills = {}};
  for (const InputPort* port : inputs_) all.takes.push_back({port});
  all.releases = all.takes;
  for (const OutputPort* port : outputs_) all.fills.push_back({port});
  return {{std::move(all)}, {}};
}

}  // namespace troupe

#include "runtime/flow/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "runtime/error.h"
#include "runtime/text.h"

namespace troupe {

bool is_meant(std::string_view named, std::string_view actor) {
  if (!actor.starts_with(named)) return false;
  return actor.size() == named.size() || actor[named.size()] == '/' || actor[named.size()] == '.';
}

void check_faults(const std::vector<FaultOptions>& faults, const Graph& graph) {
  std::vector<std::string> names;
  for (const auto& actor : graph.actors()) names.push_back(actor.name);
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  for (const FaultOptions& fault : faults) {
    if (std::ranges::any_of(names, [&](const auto& name) { return is_meant(fault.actor, name); }))
      continue;
    throw Error(ErrorCode::bad_options,
                fmt::format("`faults` names the actor {}, which does not exist", fault.actor),
                did_you_mean(fault.actor, candidates, "there are " + listed(names, 24)));
  }
}

}  // namespace troupe

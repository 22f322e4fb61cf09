#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "runtime/transport/gloo/transport.h"
#include "runtime/transport/shm/transport.h"
#include "runtime/transport/topology.h"
#include "runtime/transport/transport.h"

namespace troupe {

std::span<const Transport* const> transports() {
  static constexpr std::array all{
      &transport::shm,
      &transport::gloo,
  };
  return all;
}

const Transport& transport_named(std::string_view name) {
  const auto found = std::ranges::find(transports(), name, &Transport::name);
  if (found != transports().end()) return **found;
  throw Error(ErrorCode::bad_options, fmt::format("no transport is called '{}'", name),
              fmt::format("set `transport` to {}", fmt::join(transport_choices(), ", ")));
}

}  // namespace troupe

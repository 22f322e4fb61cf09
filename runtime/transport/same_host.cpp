#include <algorithm>

#include "runtime/transport/communicator.h"

namespace troupe {

bool same_host(const std::vector<std::string>& identities) {
  return std::all_of(identities.begin(), identities.end(), [&](const std::string& identity) {
    return !identity.empty() && identity == identities.front();
  });
}

}  // namespace troupe

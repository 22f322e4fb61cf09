#pragma once

#include <cstdlib>
#include <string>

namespace troupe::testing {

/// That of the checkout, or of what bench/gpu/pack has carried to another machine.
inline std::string source_folder() {
  const char* elsewhere = std::getenv("TROUPE_SOURCE_DIR");
  return elsewhere ? elsewhere : TROUPE_SOURCE_DIR;
}

}  // namespace troupe::testing

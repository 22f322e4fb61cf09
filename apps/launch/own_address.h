#pragma once
#include <string>

#include "apps/launch/launch_options.h"

namespace troupe {

/// The address at which the other hosts of the job reach this host.
struct OwnAddress {
  std::string address;
  bool has_endpoint = false;  ///< the endpoint of the launchers means this host
};

/// The address is that of --local-addr, which is a name, an address or an interface of this host,
/// or else the one that leads to the endpoint. Throws Error{bad_options} for a --local-addr that
/// this host does not have.
OwnAddress own_address(const LaunchOptions& options);

}  // namespace troupe

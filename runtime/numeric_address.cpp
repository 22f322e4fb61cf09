#include "runtime/numeric_address.h"

#include <sys/socket.h>

namespace troupe {

Addresses numeric_address(const std::string& host, const std::string& port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) found = nullptr;
  return {found, &::freeaddrinfo};
}

}  // namespace troupe

#include "runtime/fd.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "runtime/error.h"

namespace troupe {

Fd new_descriptor(int number) {
  if (number < 0)
    throw Error(ErrorCode::io, fmt::format("no file descriptor is left: {}", std::strerror(errno)),
                "raise the limit of open files (ulimit -n)");
  return Fd(number);
}

}  // namespace troupe

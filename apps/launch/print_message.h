#pragma once
#include <fmt/format.h>

#include <utility>

#include "runtime/print.h"

namespace troupe {

/// Prints a line of the launcher's own, by one write: lines of the processes do not mix with it.
template <class... Arguments>
void print_message(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  print_error("{} launch: {}\n", program_name(),
              fmt::format(text, std::forward<Arguments>(arguments)...));
}

}  // namespace troupe

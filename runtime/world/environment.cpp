#include "runtime/world/environment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>

#include "runtime/error.h"

namespace troupe {

Environment Environment::of_process() {
  const int terminal = ::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
  if (terminal >= 0) ::close(terminal);
  Environment environment({}, {.pid = ::getpid(), .has_terminal = terminal >= 0});
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    environment.variables_.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

std::optional<std::string> Environment::get(std::string_view name) const {
  const auto found = variables_.find(name);
  if (found == variables_.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

std::optional<int> Environment::number(std::string_view name, int least, int most) const {
  const auto text = get(name);
  if (!text) return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  const bool whole = error == std::errc() && end == text->data() + text->size();
  if (!whole || value < least || value > most)
    throw Error(ErrorCode::usage,
                fmt::format("the environment variable {}={} is not an integer from {} to {}", name,
                            text->substr(0, 64), least, most),
                fmt::format("unset {} for a run of one process, or let the launcher set it", name));
  return value;
}

}  // namespace troupe

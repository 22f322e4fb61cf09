#include "apps/jobscript/slurm_time.h"

#include <fmt/format.h>

#include <charconv>
#include <vector>

namespace troupe {
namespace {

using std::chrono::seconds;
constexpr std::int64_t minute = 60, hour = 60 * minute, day = 24 * hour, year = 366 * day;

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  if (text.empty() || text.size() > 8) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

/// "1:02:03" as numbers.
std::optional<std::vector<std::int64_t>> parts_of(std::string_view text) {
  std::vector<std::int64_t> parts;
  while (true) {
    const std::size_t colon = text.find(':');
    const auto part = number(text.substr(0, colon));
    if (!part || parts.size() == 3) return std::nullopt;
    parts.push_back(*part);
    if (colon == std::string_view::npos) return parts;
    text.remove_prefix(colon + 1);
  }
}

/// "1d12h", "90m": units in falling order, each once.
std::optional<std::int64_t> with_units(std::string_view text) {
  std::int64_t total = 0;
  std::string_view units = "dhms";
  while (!text.empty()) {
    const std::size_t at = text.find_first_of(units);
    if (at == std::string_view::npos) return std::nullopt;
    const auto count = number(text.substr(0, at));
    if (!count) return std::nullopt;
    const char unit = text[at];
    total += *count * (unit == 'd' ? day : unit == 'h' ? hour : unit == 'm' ? minute : 1);
    units.remove_prefix(units.find(unit) + 1);
    text.remove_prefix(at + 1);
    if (units.empty() && !text.empty()) return std::nullopt;
  }
  return total;
}

std::optional<std::int64_t> as_slurm(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto parts = parts_of(dash == std::string_view::npos ? text : text.substr(dash + 1));
  if (!parts) return std::nullopt;
  const auto at = [&](std::size_t i) { return i < parts->size() ? (*parts)[i] : 0; };
  if (dash != std::string_view::npos) {
    const auto days = number(text.substr(0, dash));
    if (!days) return std::nullopt;
    return *days * day + at(0) * hour + at(1) * minute + at(2);
  }
  if (parts->size() == 3) return at(0) * hour + at(1) * minute + at(2);
  return at(0) * minute + at(1);
}

}  // namespace

std::optional<seconds> parse_slurm_time(std::string_view text) {
  const bool has_units = text.find_first_of("dhms") != std::string_view::npos;
  const auto total = has_units ? with_units(text) : as_slurm(text);
  if (!total || *total <= 0 || *total > year) return std::nullopt;
  return seconds(*total);
}

std::string slurm_time(seconds time) {
  const std::int64_t total = time.count();
  const std::string clock =
      fmt::format("{:02}:{:02}:{:02}", total % day / hour, total % hour / minute, total % minute);
  return total < day ? clock : fmt::format("{}-{}", total / day, clock);
}

}  // namespace troupe

#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

/// A time limit as Slurm reads it (minutes, minutes:seconds, hours:minutes:seconds, days-hours,
/// days-hours:minutes, days-hours:minutes:seconds) or as people write it (90s, 30m, 2h, 1d12h).
/// Nothing for anything else, for zero and for more than a year.
std::optional<std::chrono::seconds> parse_slurm_time(std::string_view text);

/// "00:30:00", "3-00:00:00".
std::string slurm_time(std::chrono::seconds time);

}  // namespace troupe

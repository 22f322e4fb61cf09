#pragma once
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include "apps/output/progress.h"

namespace troupe {

/// "170.5 MB", "28.9 kB": decimal units.
std::string decimal_bytes(std::uint64_t bytes);

/// The progress of a download: a bar on a terminal, a line every few seconds elsewhere. Used by one
/// thread at a time; the caller passes the time.
class TransferDisplay {
 public:
  using Clock = std::chrono::steady_clock;

  /// `name` and `total`: of the file, in bytes. The caller keeps `out`.
  TransferDisplay(std::FILE* out, ProgressStyle style, std::string name, std::uint64_t total,
                  Clock::time_point now);

  /// The number of bytes that are there.
  void show(std::uint64_t have, Clock::time_point now);
  /// Erases the bar.
  void finish();

 private:
  std::string text(std::uint64_t have, Clock::time_point now) const;

  std::FILE* out_;
  ProgressStyle style_;
  std::string name_;
  std::uint64_t total_;
  Clock::time_point begin_, last_shown_;
  std::uint64_t had_ = 0;  ///< before this download
  bool begun_ = false, bar_shown_ = false;
};

}  // namespace troupe

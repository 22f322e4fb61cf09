#include "apps/fetch/transfer_display.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "apps/output/report.h"
#include "runtime/print.h"

namespace troupe {
namespace {

constexpr auto bar_period = std::chrono::milliseconds(100);
constexpr auto line_period = std::chrono::seconds(5);
constexpr std::string_view clear_line = "\r\x1b[2K";

}  // namespace

std::string decimal_bytes(std::uint64_t bytes) {
  const auto size = static_cast<double>(bytes);
  if (bytes >= 1'000'000) return fmt::format("{:.1f} MB", size / 1e6);
  if (bytes >= 1000) return fmt::format("{:.1f} kB", size / 1e3);
  return fmt::format("{} bytes", bytes);
}

TransferDisplay::TransferDisplay(std::FILE* out, ProgressStyle style, std::string name,
                                 std::uint64_t total, Clock::time_point now)
    : out_(out),
      style_(style),
      name_(std::move(name)),
      total_(total),
      begin_(now),
      last_shown_(now) {}

/// "cifar-10-python.tar.gz  42%  71.3 MB of 170.5 MB  5.2 MB/s  19s to go".
std::string TransferDisplay::text(std::uint64_t have, Clock::time_point now) const {
  const std::chrono::duration<double> gone = now - begin_;
  const std::uint64_t got = have > had_ ? have - had_ : 0;
  std::string pace;
  if (got > 0 && gone.count() > 0) {
    const double rate = static_cast<double>(got) / gone.count();
    const double left = static_cast<double>(total_ - std::min(have, total_)) / rate;
    pace = fmt::format("  {}/s  {} to go", decimal_bytes(static_cast<std::uint64_t>(rate)),
                       duration_text(std::chrono::duration<double>(left)));
  }
  return fmt::format("{} {:3}%  {} of {}{}", name_, total_ > 0 ? 100 * have / total_ : 100,
                     decimal_bytes(have), decimal_bytes(total_), pace);
}

void TransferDisplay::show(std::uint64_t have, Clock::time_point now) {
  if (!begun_) had_ = have;
  begun_ = true;
  const bool first_bar = style_.terminal && !bar_shown_;
  const auto period = style_.terminal ? Clock::duration(bar_period) : Clock::duration(line_period);
  if (!first_bar && now - last_shown_ < period) return;
  last_shown_ = now;
  if (!style_.terminal) {
    print_to(out_, "{}\n", text(have, now));
  } else {
    const std::string right = text(have, now);
    constexpr int free_columns = 6;  // brackets, a space, and ^C
    const int room =
        std::clamp(style_.width - static_cast<int>(right.size()) - free_columns, 0, 30);
    const auto filled =
        total_ > 0 ? static_cast<std::size_t>(have * static_cast<std::uint64_t>(room) / total_) : 0;
    const std::string bar = fmt::format("[{}{}] ", std::string(filled, '#'),
                                        std::string(static_cast<std::size_t>(room) - filled, '.'));
    const std::string line = (room > 3 ? bar : "") + right;
    print_to(out_, "{}{}", clear_line,
             line.substr(0, static_cast<std::size_t>(std::max(style_.width - 3, 0))));
    bar_shown_ = true;
  }
  std::fflush(out_);
}

void TransferDisplay::finish() {
  if (bar_shown_) print_to(out_, "{}", clear_line);
  bar_shown_ = false;
  std::fflush(out_);
}

}  // namespace troupe

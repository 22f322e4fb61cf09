#include "apps/output/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace troupe {
namespace {

constexpr auto bar_period = std::chrono::milliseconds(100);
constexpr auto line_period = std::chrono::seconds(5);
constexpr std::string_view bold = "\x1b[1m", plain = "\x1b[0m", clear_line = "\r\x1b[2K";
constexpr int shortest_bar = 10, longest_bar = 40;

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

std::string numbers(const StepReport& report) {
  return fmt::format("loss {:.4f}  accuracy {:.4f}  {:.0f} img/s", report.loss, report.accuracy,
                     report.images_per_second);
}

}  // namespace

ProgressStyle ProgressStyle::of(std::FILE* stream) {
  ProgressStyle style;
  const int descriptor = ::fileno(stream);
  const char* term = std::getenv("TERM");
  style.terminal = descriptor >= 0 && ::isatty(descriptor) == 1 && term != nullptr &&
                   std::string_view(term) != "dumb";
  style.color = style.terminal && !is_set("NO_COLOR");
  winsize size{};
  if (style.terminal && ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    style.width = size.ws_col;
  return style;
}

std::string progress_bar(const StepReport& report, std::chrono::duration<double> to_go, int width) {
  const double share =
      report.steps_total > 0
          ? std::clamp(static_cast<double>(report.step) / static_cast<double>(report.steps_total),
                       0.0, 1.0)
          : 0.0;
  // One column stays free: a terminal wraps a line that fills it.
  const auto room = static_cast<std::size_t>(std::max(width - 1, 0));
  const std::string left = fmt::format("{:3.0f}% ", share * 100);
  const std::string parts[] = {
      fmt::format(" {} to go", duration_text(to_go)),
      fmt::format("  {}", numbers(report)),
      fmt::format("  step {}/{}", report.step, report.steps_total),
  };
  std::string right;
  for (const auto& part : parts)
    if (left.size() + shortest_bar + 2 + right.size() + part.size() <= room) right += part;
  const std::size_t used = left.size() + right.size() + 2;
  if (used + 1 > room) return left.substr(0, room);
  const std::size_t length = std::min<std::size_t>(room - used, longest_bar);
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(length));
  return fmt::format("{}[{}{}]{}", left, std::string(filled, '#'),
                     std::string(length - filled, '.'), right);
}

Progress::Progress(std::FILE* out, ProgressStyle style, Clock::time_point now,
                   std::int64_t steps_done)
    : out_(out), style_(style), start_(now), last_shown_(now), steps_before_(steps_done) {}

void Progress::step(const StepReport& report, Clock::time_point now) {
  const bool due = now - last_shown_ >=
                   (style_.terminal ? Clock::duration(bar_period) : Clock::duration(line_period));
  if (due || (style_.terminal && !bar_shown_)) draw(report, now);
}

void Progress::epoch(const EpochReport& report) {
  erase_bar();
  fmt::print(out_, "{}{}{}\n", style_.color ? bold : "", epoch_line(report),
             style_.color ? plain : "");
  std::fflush(out_);
}

void Progress::note(const std::string& line) {
  erase_bar();
  fmt::print(out_, "{}\n", line);
  std::fflush(out_);
}

void Progress::finish(const EvaluationReport* evaluation) {
  erase_bar();
  if (evaluation != nullptr) fmt::print(out_, "{}\n", accuracy_line(*evaluation));
  std::fflush(out_);
}

void Progress::draw(const StepReport& report, Clock::time_point now) {
  const auto to_go = time_to_go(report, now);
  if (style_.terminal)
    fmt::print(out_, "{}{}", clear_line, progress_bar(report, to_go, style_.width));
  else
    fmt::print(out_, "step {}/{}  epoch {}/{}  {}  {} to go\n", report.step, report.steps_total,
               report.epoch, report.epochs_total, numbers(report), duration_text(to_go));
  std::fflush(out_);
  last_shown_ = now;
  bar_shown_ = style_.terminal;
}

void Progress::erase_bar() {
  if (bar_shown_) fmt::print(out_, "{}", clear_line);
  bar_shown_ = false;
}

/// The steps to go at the mean pace of this run so far.
std::chrono::duration<double> Progress::time_to_go(const StepReport& report,
                                                   Clock::time_point now) const {
  const auto done = static_cast<double>(report.step - steps_before_);
  const auto left = static_cast<double>(report.steps_total - report.step);
  const std::chrono::duration<double> gone = now - start_;
  return done > 0 ? gone * (left / done) : std::chrono::duration<double>(-1);
}

}  // namespace troupe

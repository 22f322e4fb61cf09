#include "apps/output/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "runtime/print.h"

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

/// Columns of a terminal; `otherwise` if the stream is none or has no size.
int width_of(std::FILE* stream, int otherwise) {
  winsize size{};
  const bool has_size = ::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return has_size ? size.ws_col : otherwise;
}

std::string loss_text(const StepReport& report) { return "loss " + loss_number(report.loss); }

/// "  accuracy 0.9131"; empty for a loss without accuracy.
std::string accuracy_text(const StepReport& report) {
  return report.accuracy ? fmt::format("  accuracy {:.4f}", *report.accuracy) : "";
}

/// " 94/1874", of the width of "1874/1874".
std::string of_total(std::int64_t number, std::int64_t total) {
  return fmt::format("{:>{}}/{}", number, std::to_string(total).size(), total);
}

std::string evaluation_text(const EvaluationProgress& evaluation) {
  return "evaluating " + of_total(evaluation.counted, evaluation.count);
}

}  // namespace

ProgressStyle ProgressStyle::of(std::FILE* stream) {
  ProgressStyle style;
  const int descriptor = ::fileno(stream);
  const char* term = std::getenv("TERM");
  // OpenMPI gives rank 0 a pseudo terminal, whatever mpirun writes to.
  const bool of_mpirun = is_set("OMPI_COMM_WORLD_SIZE");
  style.terminal = descriptor >= 0 && ::isatty(descriptor) == 1 && term != nullptr &&
                   std::string_view(term) != "dumb" && !of_mpirun;
  style.color = style.terminal && !is_set("NO_COLOR");
  style.width = width_of(stream, style.width);
  return style;
}

double RunningMean::add(double value) {
  constexpr double kept = 0.98;
  if (!std::isfinite(value)) {
    *this = {};
    return value;
  }
  sum_ = kept * sum_ + value;
  weight_ = kept * weight_ + 1;  // so that the first values count in full
  return sum_ / weight_;
}

std::string progress_bar(const StepReport& report, std::chrono::duration<double> to_go, int width,
                         const std::optional<EvaluationProgress>& evaluation) {
  const double share =
      report.steps_total > 0
          ? std::clamp(static_cast<double>(report.step) / static_cast<double>(report.steps_total),
                       0.0, 1.0)
          : 0.0;
  // A terminal wraps a line that fills it, and shows the ^C of an interrupt behind the bar.
  constexpr int free_columns = 3;
  const auto room = static_cast<std::size_t>(std::max(width - free_columns, 0));
  const std::int64_t steps = std::max<std::int64_t>(report.steps_total, 1);
  const std::string left =  // rounded down: 100 % is the end
      fmt::format("{:3}% ", std::clamp<std::int64_t>(100 * report.step / steps, 0, 100));
  // Of constant width while the numbers change, so that the bar does not move.
  const std::string parts[] = {
      fmt::format(" {:>5} to go", duration_text(to_go)),
      fmt::format("  {}", evaluation ? evaluation_text(*evaluation) : loss_text(report)),
      evaluation ? "" : accuracy_text(report),
      evaluation ? "" : fmt::format("  {:5.0f} {}", report.images_per_second, report.unit),
      "  step " + of_total(report.step, report.steps_total),
      "  epoch " + of_total(report.epoch, report.epochs_total),
  };
  constexpr std::size_t most_wanted_first[] = {0, 1, 4, 2, 3, 5};
  bool fits[std::size(parts)] = {};
  std::size_t taken = left.size() + shortest_bar + 2;
  for (const std::size_t i : most_wanted_first) {
    fits[i] = taken + parts[i].size() <= room;
    if (fits[i]) taken += parts[i].size();
  }
  std::string right;
  for (std::size_t i = 0; i < std::size(parts); ++i)
    if (fits[i]) right += parts[i];
  const std::size_t used = left.size() + right.size() + 2;
  if (used + 1 > room) return left.substr(0, room);
  const std::size_t length = std::min<std::size_t>(room - used, longest_bar);
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(length));
  return fmt::format("{}[{}{}]{}", left, std::string(filled, '#'),
                     std::string(length - filled, '.'), right);
}

Progress::Progress(std::FILE* out, ProgressStyle style, Clock::time_point now,
                   const StepReport& begin)
    : out_(out),
      style_(style),
      start_(now),
      last_shown_(now),
      steps_before_(begin.step),
      last_(begin) {}

void Progress::step(const StepReport& report, Clock::time_point now) {
  last_ = report;
  last_.loss = loss_.add(report.loss);
  if (report.accuracy) last_.accuracy = accuracy_.add(*report.accuracy);
  last_.images_per_second = 1 / seconds_per_image_.add(1 / report.images_per_second);
  evaluation_.reset();
  if (is_due(now)) draw(now);
}

void Progress::evaluating(const EvaluationProgress& evaluation, Clock::time_point now) {
  if (!evaluation_) {
    evaluation_begin_ = evaluation.counted;
    evaluation_since_ = now;
  }
  evaluation_ = evaluation;
  if (is_due(now)) draw(now);
}

bool Progress::is_due(Clock::time_point now) const {
  if (style_.terminal && !bar_shown_) return true;
  return now - last_shown_ >=
         (style_.terminal ? Clock::duration(bar_period) : Clock::duration(line_period));
}

void Progress::epoch(const EpochReport& report) {
  evaluation_.reset();
  erase_bar();
  print_to(out_, "{}{}{}\n", style_.color ? bold : "", epoch_line(report),
           style_.color ? plain : "");
  std::fflush(out_);
}

void Progress::line(const std::string& line) {
  erase_bar();
  print_to(out_, "{}\n", line);
  std::fflush(out_);
}

void Progress::finish() {
  erase_bar();
  std::fflush(out_);
}

void Progress::draw(Clock::time_point now) {
  const auto to_go = time_to_go(now) + evaluation_to_go(now);
  if (style_.terminal) {
    style_.width = width_of(out_, style_.width);  // a window may have been resized
    print_to(out_, "{}{}", clear_line, progress_bar(last_, to_go, style_.width, evaluation_));
  } else {
    print_to(out_, "step {}  epoch {}  {}  {} to go\n", of_total(last_.step, last_.steps_total),
             of_total(last_.epoch, last_.epochs_total),
             evaluation_ ? evaluation_text(*evaluation_)
                         : fmt::format("{}{}  {:5.0f} {}", loss_text(last_), accuracy_text(last_),
                                       last_.images_per_second, last_.unit),
             duration_text(to_go));
  }
  std::fflush(out_);
  last_shown_ = now;
  bar_shown_ = style_.terminal;
}

void Progress::erase_bar() {
  if (bar_shown_) print_to(out_, "{}", clear_line);
  bar_shown_ = false;
}

/// The steps to go at the mean pace of this run so far.
std::chrono::duration<double> Progress::time_to_go(Clock::time_point now) const {
  const auto done = static_cast<double>(last_.step - steps_before_);
  const auto left = static_cast<double>(last_.steps_total - last_.step);
  const std::chrono::duration<double> gone = now - start_;
  if (left <= 0) return {};
  return done > 0 ? gone * (left / done) : std::chrono::duration<double>::max();
}

/// What is left of an evaluation, at its own pace.
std::chrono::duration<double> Progress::evaluation_to_go(Clock::time_point now) const {
  if (!evaluation_) return {};
  const auto done = static_cast<double>(evaluation_->counted - evaluation_begin_);
  const auto left = static_cast<double>(evaluation_->count - evaluation_->counted);
  const std::chrono::duration<double> gone = now - evaluation_since_;
  return done > 0 ? gone * (left / done) : std::chrono::duration<double>{};
}

}  // namespace troupe

#include "apps/launch/outcome.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <signal.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "apps/command.h"
#include "runtime/error.h"

namespace troupe {
namespace {

std::string indented(const std::string& text) {
  std::string lines(2, ' ');
  for (const char c : text) {
    lines += c;
    if (c == '\n') lines.append(2, ' ');
  }
  return lines;
}

std::string indented_text(const ReportedError& reported) {
  return fmt::format("\n{}{}{}", indented(reported.message), reported.details.empty() ? "" : "\n",
                     reported.details.empty() ? "" : indented(reported.details));
}

std::string ending_text(const Ending& ending) {
  if (ending.signal == 0) return fmt::format("exit code {}", ending.code);
  const char* name = ::sigabbrev_np(ending.signal);
  return fmt::format("signal {} (SIG{})", ending.signal, name != nullptr ? name : "?");
}

const char* likely_cause(const Ending& ending) {
  return ending.signal == SIGKILL ? ", often because memory ran out" : "";
}

}  // namespace

std::string loss_text(const Ending& ending) {
  return ending.signal != 0 ? "killed by " + ending_text(ending) + likely_cause(ending)
                            : fmt::format("ended with {}", ending.code);
}

std::string Failure::text() const {
  const auto seconds = std::chrono::time_point_cast<std::chrono::seconds>(time);
  const auto at = fmt::format("{:%Y-%m-%d %H:%M:%S}",
                              fmt::localtime(std::chrono::system_clock::to_time_t(seconds)));
  std::string text =
      rank < 0
          ? fmt::format("{} is lost: {} at {}", host, reason, at)
          : fmt::format(
                "rank {} (local rank {} on {}, pid {}) {}: {} at {}", rank, local_rank, host, pid,
                is_consequence() ? "ended because another process was lost" : "failed first",
                ending_text(ending), at);
  if (rank >= 0) text += likely_cause(ending);
  if (rank >= 0 && !reason.empty()) text += "; " + reason;
  if (reported && !reported->is_printed) text += indented_text(*reported);
  if (reported && reported->is_printed) text += "; its error is above";
  if (!log.empty()) text += "\n  its output: " + log;
  return text;
}

std::string to_message(const Failure& failure) {
  const auto since = failure.time.time_since_epoch();
  nlohmann::json content = {
      {"rank", failure.rank},
      {"local_rank", failure.local_rank},
      {"host", failure.host},
      {"pid", failure.pid},
      {"code", failure.ending.code},
      {"signal", failure.ending.signal},
      {"time_ms", std::chrono::duration_cast<std::chrono::milliseconds>(since).count()},
      {"reason", failure.reason},
      {"log", failure.log},
      {"consequence", failure.is_consequence()}};
  if (failure.reported) {
    content["message"] = failure.reported->message;
    content["details"] = failure.reported->details;
  }
  return content.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Failure failure_from(const std::string& message) {
  try {
    const auto content = nlohmann::json::parse(message);
    Failure failure;
    failure.rank = content.at("rank").get<int>();
    failure.local_rank = content.at("local_rank").get<int>();
    failure.host = content.at("host").get<std::string>();
    failure.pid = content.at("pid").get<pid_t>();
    failure.ending = {.code = content.at("code").get<int>(),
                      .signal = content.at("signal").get<int>()};
    failure.time = std::chrono::system_clock::time_point(
        std::chrono::milliseconds(content.at("time_ms").get<std::int64_t>()));
    failure.reason = content.at("reason").get<std::string>();
    failure.log = content.at("log").get<std::string>();
    if (content.contains("message"))
      failure.reported = ReportedError{.message = content.at("message").get<std::string>(),
                                       .details = content.at("details").get<std::string>(),
                                       .is_consequence = content.at("consequence").get<bool>()};
    return failure;
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorCode::io, "the launcher of another host sent a damaged failure report",
                "use the same version of troupe on all hosts");
  }
}

/// Whether `process` failed for a reason of its own, and the first failure did not.
bool Outcome::gives_way_to(const Failure& process) const {
  const int code = process.ending.exit_code();
  if (process.rank < 0 && own_have_ended_) return false;
  return first_ && first_->is_consequence() && !process.is_consequence() && code != exit_stopped &&
         code != 128 + SIGTERM && code != 128 + stop_signal_ && !killing_;
}

void Outcome::record_consequence(const Failure& process) {
  if (!process.is_consequence()) return;
  if (!witness_ || process.reported->is_printed) witness_ = process;
}

std::string Outcome::report() const {
  std::string text = first_->text();
  if (!first_->reported && witness_ && !witness_->reported->is_printed)
    text += fmt::format("\n  rank {} on {} reported:{}", witness_->rank, witness_->host,
                        indented_text(*witness_->reported));
  return text;
}

Outcome::Next Outcome::ended(const Failure& process) {
  const Ending& ending = process.ending;
  if (ending.exit_code() == 0 && process.rank >= 0) return Next::wait;
  record_consequence(process);
  if (gives_way_to(process)) first_ = process;
  if (first_ || ending_all_) return Next::wait;
  if (ending.exit_code() == exit_stopped) {
    stopped_ = true;
    return Next::wait;
  }
  if (stop_signal_ != 0 && ending.exit_code() == 128 + stop_signal_) {
    ended_by_signal_ = true;
    return Next::wait;
  }
  first_ = process;
  return Next::end_others;
}

int Outcome::exit_code() const {
  if (first_) return first_->ending.exit_code() != 0 ? first_->ending.exit_code() : exit_failed;
  if (stopped_) return exit_stopped;
  return ended_by_signal_ ? 128 + stop_signal_ : exit_done;
}

}  // namespace troupe

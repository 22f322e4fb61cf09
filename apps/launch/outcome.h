#pragma once
#include <chrono>
#include <optional>
#include <string>

#include "apps/launch/child.h"
#include "runtime/world/error_file.h"

namespace troupe {

/// A process that failed, or a host that was lost with its processes.
struct Failure {
  int rank = -1;  ///< -1 for a host
  int local_rank = -1;
  std::string host;
  pid_t pid = 0;
  Ending ending;
  std::chrono::system_clock::time_point time;
  std::optional<ReportedError> reported;  ///< `is_printed` if the terminal already shows it
  std::string reason;                     ///< a reason in addition to the ending; may be empty
  std::string log;  ///< the file of its output; empty if it wrote to the launcher's streams

  bool is_consequence() const { return reported && reported->is_consequence; }

  /// The launcher's message: rank, host, exit code or signal, time, and the error that the process
  /// reported, unless it is already printed.
  std::string text() const;
};

/// The reason that other processes receive for a failed process: "killed by signal 11 (SIGSEGV)".
std::string loss_text(const Ending& ending);

/// Serialises a failure for the launchers of the other hosts.
std::string to_message(const Failure& failure);
/// The inverse of to_message. Throws Error (io) for any other text.
Failure failure_from(const std::string& message);

/// Determines the outcome of a job from the endings of its processes. It uses no clock and starts
/// no process.
class Outcome {
 public:
  enum class Next { wait, end_others };

  /// A signal that requests a stop was forwarded, and processes may end by it.
  void stop_asked(int signal) { stop_signal_ = signal; }

  /// A process has ended. After the first failure, or after ending_all(), further endings have no
  /// effect, with one exception. If the first failure reports that it is a consequence of another
  /// failure, a later failure that is not a consequence replaces it, because the launcher may see
  /// failures in any order.
  Next ended(const Failure& process);

  /// The launcher has begun to end all processes for a reason other than a failure.
  void ending_all() { ending_all_ = true; }
  /// The processes of this host have ended. A host that is lost after this, for example because its
  /// launcher ends, is not the cause.
  void own_have_ended() { own_have_ended_ = true; }
  /// The launcher has begun to kill the remaining processes.
  void killing_all() { killing_ = true; }

  const std::optional<Failure>& first() const { return first_; }
  /// The text to print for the first failure. If the failed process gave no reason, the text
  /// includes the loss report of another process, unless it is already printed.
  std::string report() const;
  bool stopped() const { return stopped_; }  ///< a process ended with exit_stopped

  /// The exit code of the first failure; else 75 if a process stopped with a checkpoint to resume
  /// from; else 128 + the forwarded signal, if it ended a process; else 0.
  int exit_code() const;

 private:
  std::optional<Failure> first_;
  std::optional<Failure> witness_;  // a process that failed because of another and reported it
  bool stopped_ = false, ended_by_signal_ = false, ending_all_ = false, killing_ = false;
  bool own_have_ended_ = false;
  int stop_signal_ = 0;

  bool gives_way_to(const Failure& process) const;
  void record_consequence(const Failure& process);
};

}  // namespace troupe

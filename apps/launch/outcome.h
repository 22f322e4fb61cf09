#pragma once
#include <chrono>
#include <optional>
#include <string>

#include "apps/launch/child.h"
#include "runtime/world/error_file.h"

namespace troupe {

/// One process that failed, or a host whose processes cannot be seen any more.
struct Failure {
  int rank = -1;  ///< -1 for a host
  int local_rank = -1;
  std::string host;
  pid_t pid = 0;
  Ending ending;
  std::chrono::system_clock::time_point time;
  std::optional<ReportedError> reported;  ///< `is_printed` if the terminal already shows it
  std::string reason;  ///< what the launcher knows beside the ending; may be empty
  std::string log;     ///< where its streams went; empty if to the launcher's own

  bool is_consequence() const { return reported && reported->is_consequence; }

  /// What the launcher prints of it: rank, host, exit code or signal, time, and what it said
  /// itself, unless that is printed.
  std::string text() const;
};

/// What the other processes are given of one that has failed: "killed by signal 11 (SIGSEGV)".
std::string loss_text(const Ending& ending);

/// For the launchers of the other hosts.
std::string to_message(const Failure& failure);
/// Throws Error (io) for anything that to_message has not made.
Failure failure_from(const std::string& message);

/// What the endings of a job's processes come to. No clock and no process in it.
class Outcome {
 public:
  enum class Next { wait, end_others };

  /// A signal that asks to stop was passed on: processes may end by it.
  void stop_asked(int signal) { stop_signal_ = signal; }

  /// A process has ended. After the first failure, or once the caller ends all for another reason,
  /// further endings change nothing; but a failure that says itself to follow from another gives
  /// way to one that does not, as the order in which they are seen is a matter of luck.
  Next ended(const Failure& process);

  /// The launcher has begun to end all processes for another reason than a failure.
  void ending_all() { ending_all_ = true; }
  /// The processes of this host have ended. A host that is lost from now on, and be it because its
  /// launcher has ended as well, is not why they did.
  void own_have_ended() { own_have_ended_ = true; }
  /// The launcher has begun to kill what is left.
  void killing_all() { killing_ = true; }

  const std::optional<Failure>& first() const { return first_; }
  /// What is to be printed of the first failure: its text, and, where it could not say why itself,
  /// what another process found, unless that is printed.
  std::string report() const;
  bool stopped() const { return stopped_; }  ///< a process ended with exit_stopped

  /// The first failure's exit code; else 75 if a process was stopped with a checkpoint to resume
  /// from; else 128 + the signal that was passed on, if a process ended by it; else 0.
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

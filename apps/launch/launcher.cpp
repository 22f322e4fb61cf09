#include "apps/launch/launcher.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstring>

#include "apps/launch/connect_hosts.h"
#include "apps/launch/local_processes.h"
#include "apps/launch/print_message.h"
#include "runtime/text.h"

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

/// A moment for other processes and hosts to learn of a failure and report it themselves.
constexpr std::chrono::seconds moment{1};

class Launcher {
 public:
  Launcher(const LaunchOptions& options, const Signals& signals, Guard& guard)
      : options_(options),
        signals_(signals),
        group_(connect_hosts(options, signals)),
        processes_(options, group_->place(), guard) {}

  int run() {
    processes_.start();
    const JobFolder& folder = processes_.folder();
    if (folder.has_output())
      print_message("the output of the processes is in {}", folder.path().string());
    else if (folder.kept())
      print_message(
          "{} has only the error files of the processes; -r 3 or -t 3 writes their output there",
          folder.path().string());
    while (processes_.running() > 0 || (!group_->all_done() && !has_given_up_others())) wait_once();
    processes_.finish();
    if (outcome_.first()) print_message("{}", outcome_.report());
    if (folder.kept() && folder.is_full())
      print_message("the disk of {} is full: the end of the output may be missing",
                    folder.path().string());
    return outcome_.exit_code();
  }

 private:
  void wait_once();
  void on_signal(int number);
  void on_ended(const Failure& ended);
  void on_failure_elsewhere(const Failure& failure);
  void let_others_end();
  void on_deadline();
  void look_at_others();
  std::optional<Clock::time_point> others_until() const;
  bool has_given_up_others() const {
    const auto until = others_until();
    return until && Clock::now() >= *until;
  }
  void end_all(int signal);

  const LaunchOptions& options_;
  const Signals& signals_;
  std::unique_ptr<NodeGroup> group_;
  LocalProcesses processes_;
  Outcome outcome_;
  bool has_announced_witness_ = false;         // to the other hosts: one of this host is enough
  std::optional<Clock::time_point> deadline_;  // when those that are left get the next signal
  int at_deadline_ = SIGKILL;
  std::optional<Clock::time_point> waits_since_;  // for other hosts alone, after a failure
};

void Launcher::wait_once() {
  std::vector<pollfd> ready{{.fd = signals_.descriptor(), .events = POLLIN, .revents = 0},
                            {.fd = group_->descriptor(), .events = POLLIN, .revents = 0}};
  const std::size_t first_process = ready.size();
  processes_.append_to(ready);
  int wait = -1;
  if (const auto next = deadline_ ? deadline_ : others_until()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now());
    wait = static_cast<int>(std::max<std::int64_t>(0, left.count()));
  }
  ::poll(ready.data(), ready.size(), wait);
  for (int number = 0; (number = signals_.next()) != 0;) on_signal(number);
  for (std::size_t i = first_process; i < ready.size(); ++i)
    if (ready[i].revents != 0) on_ended(processes_.reap(i - first_process));
  for (const auto& failure : group_->take_failures()) on_failure_elsewhere(failure);
  if (deadline_ && Clock::now() >= *deadline_) on_deadline();
  look_at_others();
}

void Launcher::on_signal(int number) {
  if (number == SIGCHLD) return processes_.reap_adopted_children();
  if (number == SIGUSR1 || number == SIGUSR2) return processes_.signal(number);
  processes_.signal_groups(number);
  if (!outcome_.first())
    print_message("SIG{} was sent to {}, which must end within {}", ::sigabbrev_np(number),
                  counted(processes_.running(), "process"), in_words(options_.grace_period));
  outcome_.stop_asked(number);
  if (deadline_) return;
  deadline_ = Clock::now() + options_.grace_period;
  at_deadline_ = SIGKILL;
}

void Launcher::on_ended(const Failure& ended) {
  const auto next = outcome_.ended(ended);
  if (ended.ending.exit_code() != 0) group_->report_lost(ended.rank, loss_text(ended.ending));
  const auto& first = outcome_.first();
  const bool is_first = first && first->rank == ended.rank;
  // A process that reports the loss of another also says how to resume: send it to the other hosts.
  const bool is_witness = first && !is_first && ended.is_consequence() &&
                          ended.ending.exit_code() != 0 && !has_announced_witness_;
  has_announced_witness_ = has_announced_witness_ || is_witness;
  if (is_first || is_witness) group_->announce(ended);
  if (next == Outcome::Next::end_others) {
    let_others_end();
  } else if (outcome_.stopped() && !deadline_) {
    // The other processes are about to stop as well, unless they did not get the signal.
    deadline_ = Clock::now() + options_.grace_period;
    at_deadline_ = SIGTERM;
  }
  if (processes_.running() > 0) return;
  outcome_.own_have_ended();
  group_->announce_done();
}

void Launcher::on_failure_elsewhere(const Failure& failure) {
  if (outcome_.ended(failure) != Outcome::Next::end_others) return;
  group_->announce_ending();
  let_others_end();
}

/// Processes of a world detect the loss and report it themselves. A signal before that would look
/// like a request to stop.
void Launcher::let_others_end() {
  outcome_.ending_all();
  processes_.signal_groups(SIGCONT);  // stopped processes must run to learn of it
  deadline_ = Clock::now() + std::min<std::chrono::milliseconds>(moment, options_.grace_period);
  at_deadline_ = SIGTERM;
}

void Launcher::look_at_others() {
  if (processes_.running() > 0 || !outcome_.first() || waits_since_) return;
  deadline_.reset();
  waits_since_ = Clock::now();
}

/// After a failure all hosts that receive its report print it, and end their processes within the
/// grace period. One that has said nothing for a moment cannot be reached.
std::optional<Clock::time_point> Launcher::others_until() const {
  if (!waits_since_) return std::nullopt;
  return *waits_since_ + moment +
         (group_->all_are_ending() ? options_.grace_period : std::chrono::milliseconds(0));
}

void Launcher::end_all(int signal) {
  outcome_.ending_all();
  processes_.signal_groups(signal);
  deadline_ = Clock::now() + options_.grace_period;
  at_deadline_ = SIGKILL;
}

void Launcher::on_deadline() {
  deadline_.reset();
  if (processes_.running() == 0) return;
  if (at_deadline_ == SIGTERM && outcome_.first()) return end_all(SIGTERM);
  print_message("{} of {} processes have not ended after {}: the launcher sends SIG{}",
                processes_.running(), options_.processes, in_words(options_.grace_period),
                ::sigabbrev_np(at_deadline_));
  if (at_deadline_ == SIGTERM) return end_all(SIGTERM);
  outcome_.killing_all();
  processes_.signal_groups(SIGKILL);
}

}  // namespace

int launch(const LaunchOptions& options) {
  if (options.max_restarts > 0)
    print_message(
        "--max-restarts {} has no effect: the first failure ends the run; start it again to resume "
        "from the last checkpoint",
        options.max_restarts);
  const Signals signals;
  Guard guard;
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  return Launcher(options, signals, guard).run();
}

}  // namespace troupe

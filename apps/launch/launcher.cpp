#include "apps/launch/launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <future>
#include <thread>

#include "apps/launch/guard.h"
#include "apps/launch/job_folder.h"
#include "apps/launch/node_group.h"
#include "apps/launch/outcome.h"
#include "apps/launch/output.h"
#include "apps/launch/process_environment.h"
#include "apps/launch/stragglers.h"
#include "runtime/error.h"
#include "runtime/print.h"
#include "runtime/text.h"
#include "runtime/world/cores.h"
#include "runtime/world/environment.h"

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

template <class... Arguments>
void say(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  // One write, so that the line is not mixed with lines of the processes.
  const auto line = "troupe launch: " + fmt::format(text, std::forward<Arguments>(arguments)...);
  print_error("{}\n", line);
}

/// The signals a launcher passes on, as a descriptor; blocked in every thread that starts later.
class Signals {
 public:
  Signals() {
    ::sigemptyset(&set_);
    for (const int number : {SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD})
      ::sigaddset(&set_, number);
    // Under nohup the run continues when the terminal closes.
    struct sigaction hangup {};
    ::sigaction(SIGHUP, nullptr, &hangup);
    if (hangup.sa_handler != SIG_IGN) ::sigaddset(&set_, SIGHUP);
    ::signal(SIGCHLD, SIG_DFL);  // if it were ignored, the endings of children would be lost
    ::pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
    descriptor_.reset(::signalfd(-1, &set_, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  int descriptor() const { return descriptor_.get(); }

  /// The next one that has come; 0 if none.
  int next() const {
    signalfd_siginfo info{};
    return ::read(descriptor(), &info, sizeof info) == sizeof info
               ? static_cast<int>(info.ssi_signo)
               : 0;
  }

 private:
  sigset_t set_{};
  Fd descriptor_;
};

/// Connects to the other launchers. A signal ends the wait and the process, after the job's key
/// file has been removed.
std::unique_ptr<NodeGroup> rendezvous(const LaunchOptions& options, const Signals& signals) {
  if (!options.endpoint) return NodeGroup::rendezvous(options);
  say("waiting for {} at {}:{} (up to {})", counted(options.nodes - 1, "other host"),
      options.endpoint->host, options.endpoint->port, in_words(options.join_timeout));
  const Fd connected(::eventfd(0, EFD_CLOEXEC));
  std::stop_source stop;
  auto group = std::async(std::launch::async, [&] {
    struct Ring {
      int number;
      ~Ring() { ::eventfd_write(number, 1); }
    } ring{connected.get()};
    return NodeGroup::rendezvous(options, stop.get_token());
  });
  for (;;) {
    std::array<pollfd, 2> ready{{{.fd = connected.get(), .events = POLLIN, .revents = 0},
                                 {.fd = signals.descriptor(), .events = POLLIN, .revents = 0}}};
    ::poll(ready.data(), ready.size(), -1);
    if (ready[0].revents != 0) {
      auto all = group.get();
      const Place& place = all->place();
      const int last = place.first_rank + options.processes - 1;
      const bool leads = place.node == 0;
      say("all hosts are connected; {} is host {} of {}, with rank{} {}{} of {}{}", place.host,
          place.node, place.nodes, options.processes == 1 ? "" : "s", place.first_rank,
          options.processes == 1 ? "" : fmt::format(" to {}", last), place.size,
          leads ? "" : fmt::format("; rank 0 reports on {}", place.leading_host));
      return all;
    }
    const int number = signals.next();
    if (number == 0 || number == SIGCHLD) continue;
    constexpr std::chrono::seconds moment{1};
    say("SIG{}: stops waiting for other hosts", ::sigabbrev_np(number));
    stop.request_stop();
    if (group.wait_for(moment) == std::future_status::ready) try {
        group.get().reset();
      } catch (const Error&) {  // it was stopped
      }
    ::_exit(128 + number);
  }
}

/// One process of this host.
struct Worker {
  Child child;
  int local_rank = 0;
  bool alive = true;
};

class Launcher {
 public:
  Launcher(const LaunchOptions& options, const Signals& signals, Guard& guard)
      : options_(options),
        signals_(signals),
        guard_(guard),
        group_(rendezvous(options, signals)),
        folder_(options) {}

  int run() {
    try {
      for (int local_rank = 0; local_rank < options_.processes; ++local_rank) start(local_rank);
    } catch (...) {
      send_all(SIGKILL);
      end_stragglers(guard_.pid());
      throw;
    }
    if (folder_.has_output())
      say("the output of the processes is in {}", folder_.path().string());
    else if (folder_.kept())
      say("{} has only the error files of the processes; -r 3 or -t 3 writes their output there",
          folder_.path().string());
    while (alive_ > 0 || (!group_->all_done() && !has_given_up_others())) wait_once();
    end_stragglers(guard_.pid());
    pump_.finish();
    if (outcome_.first()) say("{}", outcome_.report());
    if (folder_.kept() && folder_.is_full())
      say("the disk of {} is full: the end of the output may be missing", folder_.path().string());
    return outcome_.exit_code();
  }

 private:
  void start(int local_rank);
  Fd stream_of(int local_rank, Streams stream);
  void wait_once();
  void on_signal(int number);
  void on_ended(Worker& worker);
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
  void send_all(int signal);
  Failure failure_of(const Worker& worker, const Ending& ending) const;

  const LaunchOptions& options_;
  const Signals& signals_;
  Guard& guard_;
  std::unique_ptr<NodeGroup> group_;
  JobFolder folder_;
  OutputPump pump_;
  std::vector<Cpu> cpus_ = usable_cpus();
  std::vector<Worker> workers_;
  int alive_ = 0;
  Outcome outcome_;
  bool has_announced_witness_ = false;         // to the other hosts: one of this host is enough
  std::optional<Clock::time_point> deadline_;  // when those that are left get the next signal
  int at_deadline_ = SIGKILL;
  std::optional<Clock::time_point> waits_since_;  // for other hosts alone, after a failure
};

Fd Launcher::stream_of(int local_rank, Streams stream) {
  const auto at = static_cast<std::size_t>(local_rank);
  const int ours = stream == standard_output ? 1 : 2;
  const auto file = folder_.stream(local_rank, stream);
  if ((options_.tees[at] & stream) != 0 && options_.shown[at])
    return pump_.add(file, ours,
                     prefix_of(options_.prefix,
                               {{"role_name", options_.role},
                                {"local_rank", std::to_string(local_rank)},
                                {"rank", std::to_string(group_->place().first_rank + local_rank)},
                                {"hostname", group_->place().host}}));
  if (((options_.tees[at] | options_.redirects[at]) & stream) != 0) return new_file(file);
  if (!options_.shown[at]) return new_file("/dev/null");
  Fd copy(::fcntl(ours, F_DUPFD_CLOEXEC, 3));
  if (!copy)
    throw Error(ErrorCode::io,
                fmt::format("launch: cannot copy an output stream: {}", std::strerror(errno)),
                "raise the limit of open files: ulimit -n");
  return copy;
}

void Launcher::start(int local_rank) {
  const auto cpus = share_of(cpus_, local_rank, options_.processes);
  const int threads = threads_for(cpus.size(), cpu_quota(), options_.processes);
  const Fd output = stream_of(local_rank, standard_output);
  const Fd error = stream_of(local_rank, standard_error);
  ChildOptions child{
      .program = options_.program,
      .environment = process_environment(Environment::of_process().variables(), options_,
                                         group_->place(), local_rank, {cpus, threads, cpus_.size()},
                                         folder_.error_file(local_rank).string()),
      .cpus = options_.processes > 1 ? cpus : std::vector<int>(),
      .output = output.get(),
      .error = error.get(),
      .announce = guard_.line()};
  workers_.push_back({.child = Child::start(child), .local_rank = local_rank});
  ++alive_;
}

void Launcher::wait_once() {
  std::vector<pollfd> ready{{.fd = signals_.descriptor(), .events = POLLIN, .revents = 0},
                            {.fd = group_->descriptor(), .events = POLLIN, .revents = 0}};
  for (const auto& worker : workers_)
    ready.push_back(
        {.fd = worker.alive ? worker.child.descriptor() : -1, .events = POLLIN, .revents = 0});
  int wait = -1;
  if (const auto next = deadline_ ? deadline_ : others_until()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now());
    wait = static_cast<int>(std::max<std::int64_t>(0, left.count()));
  }
  ::poll(ready.data(), ready.size(), wait);
  for (int number = 0; (number = signals_.next()) != 0;) on_signal(number);
  for (std::size_t i = 0; i < workers_.size(); ++i)
    if (ready[i + 2].revents != 0) on_ended(workers_[i]);
  for (const auto& failure : group_->take_failures()) on_failure_elsewhere(failure);
  if (deadline_ && Clock::now() >= *deadline_) on_deadline();
  look_at_others();
}

void Launcher::on_signal(int number) {
  if (number == SIGCHLD) {
    std::vector<pid_t> own{guard_.pid()};
    for (const auto& worker : workers_)
      if (worker.alive) own.push_back(worker.child.pid());
    reap_adopted(own);
    return;
  }
  if (number == SIGUSR1 || number == SIGUSR2) {
    for (const auto& worker : workers_)
      if (worker.alive) worker.child.signal(number);
    return;
  }
  if (!outcome_.first())
    say("SIG{} is passed on to {}, which must end within {}", ::sigabbrev_np(number),
        counted(alive_, "process"), in_words(options_.grace_period));
  outcome_.stop_asked(number);
  send_all(number);
  if (deadline_) return;
  deadline_ = Clock::now() + options_.grace_period;
  at_deadline_ = SIGKILL;
}

Failure Launcher::failure_of(const Worker& worker, const Ending& ending) const {
  const auto at = static_cast<std::size_t>(worker.local_rank);
  const bool is_teed = (options_.tees[at] & standard_error) != 0;
  const bool is_logged = is_teed || (options_.redirects[at] & standard_error) != 0;
  auto told = read_error_file(folder_.error_file(worker.local_rank));
  if (told) told->is_printed &= options_.shown[at] && (is_teed || !is_logged);
  return {.rank = group_->place().first_rank + worker.local_rank,
          .local_rank = worker.local_rank,
          .host = group_->place().host,
          .pid = worker.child.pid(),
          .ending = ending,
          .time = std::chrono::system_clock::now(),
          .told = std::move(told),
          .reason = {},
          .log = is_logged ? folder_.stream(worker.local_rank, standard_error).string() : ""};
}

void Launcher::on_ended(Worker& worker) {
  const Failure ended = failure_of(worker, worker.child.reap());
  worker.alive = false;
  --alive_;
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
  if (alive_ > 0) return;
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
  constexpr std::chrono::seconds moment{1};
  outcome_.ending_all();
  send_all(SIGCONT);  // stopped processes must run to learn of it
  deadline_ = Clock::now() + std::min<std::chrono::milliseconds>(moment, options_.grace_period);
  at_deadline_ = SIGTERM;
}

void Launcher::look_at_others() {
  if (alive_ > 0 || !outcome_.first() || waits_since_) return;
  deadline_.reset();
  waits_since_ = Clock::now();
}

/// After a failure all hosts that hear of it say so, and end their processes within the grace
/// period. One that has said nothing for a moment cannot be reached.
std::optional<Clock::time_point> Launcher::others_until() const {
  constexpr std::chrono::seconds moment{1};
  if (!waits_since_) return std::nullopt;
  return *waits_since_ + moment +
         (group_->all_are_ending() ? options_.grace_period : std::chrono::milliseconds(0));
}

void Launcher::end_all(int signal) {
  outcome_.ending_all();
  send_all(signal);
  deadline_ = Clock::now() + options_.grace_period;
  at_deadline_ = SIGKILL;
}

void Launcher::on_deadline() {
  deadline_.reset();
  if (alive_ == 0) return;
  if (at_deadline_ == SIGTERM && outcome_.first()) return end_all(SIGTERM);
  say("{} of {} processes have not ended after {}: sends SIG{}", alive_, options_.processes,
      in_words(options_.grace_period), ::sigabbrev_np(at_deadline_));
  if (at_deadline_ == SIGTERM) return end_all(SIGTERM);
  outcome_.killing_all();
  send_all(SIGKILL);
}

void Launcher::send_all(int signal) {
  for (const auto& worker : workers_) {
    if (!worker.alive) continue;
    worker.child.signal_group(signal);
    if (signal == SIGTERM) worker.child.signal_group(SIGCONT);  // one that was stopped hears it too
  }
}

}  // namespace

int launch(const LaunchOptions& options) {
  if (options.max_restarts > 0)
    say("--max-restarts {} has no effect: the first failure ends the run; start it again to resume "
        "from the last checkpoint",
        options.max_restarts);
  const Signals signals;
  Guard guard;
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  return Launcher(options, signals, guard).run();
}

}  // namespace troupe

#include "apps/launch/local_processes.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "apps/launch/process_environment.h"
#include "apps/launch/stragglers.h"
#include "runtime/error.h"
#include "runtime/world/environment.h"

namespace troupe {

void LocalProcesses::start() {
  try {
    for (int local_rank = 0; local_rank < options_.processes; ++local_rank) start(local_rank);
  } catch (...) {
    signal_groups(SIGKILL);
    end_stragglers(guard_.pid());
    throw;
  }
}

void LocalProcesses::start(int local_rank) {
  const auto cpus = share_of(cpus_, local_rank, options_.processes);
  const int threads = threads_for(cpus.size(), cpu_quota(), options_.processes);
  const Fd output = output_of(local_rank, standard_output);
  const Fd error = output_of(local_rank, standard_error);
  ChildOptions child{.program = options_.program,
                     .environment = process_environment(
                         Environment::of_process().variables(), options_, place_, local_rank,
                         {cpus, threads, cpus_.size()}, folder_.error_file(local_rank).string()),
                     .cpus = options_.processes > 1 ? cpus : std::vector<int>(),
                     .output = output.get(),
                     .error = error.get(),
                     .announce = guard_.line()};
  processes_.push_back({.child = Child::start(child), .local_rank = local_rank});
  ++running_;
}

Fd LocalProcesses::output_of(int local_rank, Outputs output) {
  const auto at = static_cast<std::size_t>(local_rank);
  const int ours = output == standard_output ? 1 : 2;
  const auto file = folder_.output(local_rank, output);
  if ((options_.tees[at] & output) != 0 && options_.shown[at])
    return pump_.add(
        file, ours,
        prefix_of(options_.prefix, {{"role_name", options_.role},
                                    {"local_rank", std::to_string(local_rank)},
                                    {"rank", std::to_string(place_.first_rank + local_rank)},
                                    {"hostname", place_.host}}));
  if (((options_.tees[at] | options_.redirects[at]) & output) != 0) return new_file(file);
  if (!options_.shown[at]) return new_file("/dev/null");
  Fd copy(::fcntl(ours, F_DUPFD_CLOEXEC, 3));
  if (!copy)
    throw Error(ErrorCode::io,
                fmt::format("launch: cannot copy an output: {}", std::strerror(errno)),
                "raise the limit of open files: ulimit -n");
  return copy;
}

void LocalProcesses::append_to(std::vector<pollfd>& ready) const {
  for (const Process& process : processes_)
    ready.push_back(
        {.fd = process.running ? process.child.descriptor() : -1, .events = POLLIN, .revents = 0});
}

Failure LocalProcesses::reap(std::size_t index) {
  Process& process = processes_[index];
  process.running = false;
  --running_;
  return failure_of(process, process.child.reap());
}

Failure LocalProcesses::failure_of(const Process& process, const Ending& ending) const {
  const auto at = static_cast<std::size_t>(process.local_rank);
  const bool is_teed = (options_.tees[at] & standard_error) != 0;
  const bool is_logged = is_teed || (options_.redirects[at] & standard_error) != 0;
  auto reported = read_error_file(folder_.error_file(process.local_rank));
  if (reported) reported->is_printed &= options_.shown[at] && (is_teed || !is_logged);
  return {.rank = place_.first_rank + process.local_rank,
          .local_rank = process.local_rank,
          .host = place_.host,
          .pid = process.child.pid(),
          .ending = ending,
          .time = std::chrono::system_clock::now(),
          .reported = std::move(reported),
          .reason = {},
          .log = is_logged ? folder_.output(process.local_rank, standard_error).string() : ""};
}

void LocalProcesses::reap_adopted_children() const {
  std::vector<pid_t> own{guard_.pid()};
  for (const Process& process : processes_)
    if (process.running) own.push_back(process.child.pid());
  reap_adopted(own);
}

void LocalProcesses::signal(int number) const {
  for (const Process& process : processes_)
    if (process.running) process.child.signal(number);
}

void LocalProcesses::signal_groups(int number) const {
  for (const Process& process : processes_) {
    if (!process.running) continue;
    process.child.signal_group(number);
    if (number == SIGTERM) process.child.signal_group(SIGCONT);
  }
}

void LocalProcesses::finish() {
  end_stragglers(guard_.pid());
  pump_.finish();
}

}  // namespace troupe

#pragma once
// How a program's `main` reports the library's errors: with the same two lines and exit codes as
// the `troupe` command.

#include <functional>
#include <stop_token>
#include <type_traits>

#include "runtime/error.h"

namespace troupe {

/// Exit codes of the command and of run_main; scripts rely on them.
enum ExitCode : int {
  exit_done = 0,
  exit_failed = 1,
  exit_usage = 2,     ///< a wrong command line or wrong options
  exit_stopped = 75,  ///< stopped on request, with a checkpoint to resume from if it keeps any
};

/// exit_usage for a wrong command line or options, exit_failed for everything else.
ExitCode exit_code_of(const Error& error);

/// Flushes standard output, then writes the error, after the program's name, and what to try to
/// standard error, one line each. Returns exit_code_of(error).
ExitCode print_error(const Error& error);

/// Calls `body` and reports an exception as above. Returns the exit code for `main`.
int guarded_main(const std::function<int()>& body);
/// The same for a body that can be stopped. The first SIGINT, SIGTERM, SIGUSR1 or SIGHUP (except
/// under nohup) requests the stop; another one a second later ends the process. An Error{refused}
/// after the request means that a wait for other processes has ended: exit_stopped. Call it before
/// other threads start.
int guarded_main(const std::function<int(std::stop_token)>& body);

/// The body of a `main`: runs it and turns its exceptions into a message, a remedy and an exit code
/// where std::terminate would abort.
///
///     int main() { return troupe::run_main([] { … }); }
///
/// `body` returns nothing, an exit code, or the RunReport of its run. For a run that
/// RunOptions::stop has ended the exit code is exit_stopped. A body that takes a std::stop_token
/// passes it to JoinedWorld::join and RunOptions::stop, so that Ctrl-C stops the run; without it
/// signals end the process as usual.
template <class Body>
int run_main(Body&& body) {
  const auto code_of = [&](auto... stop) -> int {
    using Returned = std::invoke_result_t<Body&, decltype(stop)...>;
    if constexpr (std::is_void_v<Returned>) {
      body(stop...);
      return exit_done;
    } else if constexpr (std::is_integral_v<Returned> || std::is_enum_v<Returned>) {
      return static_cast<int>(body(stop...));
    } else {
      return body(stop...).stopped ? exit_stopped : exit_done;
    }
  };
  if constexpr (std::is_invocable_v<Body&, std::stop_token>)
    return guarded_main(std::function<int(std::stop_token)>(code_of));
  else
    return guarded_main(std::function<int()>(code_of));
}

}  // namespace troupe

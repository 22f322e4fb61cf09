#include "runtime/program.h"

#include <cstdio>
#include <exception>

#include "runtime/print.h"
#include "runtime/stop_signal.h"
#include "runtime/world/error_file.h"

namespace troupe {

ExitCode exit_code_of(const Error& error) {
  const bool wrong_usage =
      error.code() == ErrorCode::usage || error.code() == ErrorCode::bad_options;
  return wrong_usage ? exit_usage : exit_failed;
}

ExitCode print_error(const Error& error) {
  std::fflush(stdout);
  report_to_launcher(error, true);
  print_error("{}: error: {}\n", program_name(), error.message());
  if (!error.remedy().empty()) print_error("  try: {}\n", error.remedy());
  return exit_code_of(error);
}

int guarded_main(const std::function<int()>& body) {
  keep_standard_streams();
  try {
    return body();
  } catch (const Error& error) {
    return print_error(error);
  } catch (const std::exception& error) {
    return print_error(Error(ErrorCode::internal, error.what()));
  }
}

int guarded_main(const std::function<int(std::stop_token)>& body) {
  return guarded_main([&]() -> int {
    std::stop_source stop;
    const StopSignal on_signal([&stop] {
      print_error("stopping before the next step; a second signal ends at once\n");
      stop.request_stop();
    });
    try {
      return body(stop.get_token());
    } catch (const Error& error) {
      // The body still waited for other processes: there is nothing to save or to report.
      if (stop.stop_requested() && error.code() == ErrorCode::refused) return exit_stopped;
      throw;
    }
  });
}

}  // namespace troupe

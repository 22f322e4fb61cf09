#include "apps/memory_shortage.h"

#include <execinfo.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <string_view>
#include <system_error>

#include "runtime/program.h"

namespace troupe {
namespace {

std::terminate_handler usual_end = nullptr;

/// Whether memory or a thread was asked for in vain. One that is still on its way is of unknown
/// type: it met a thread that nobody can join any more, as half-started schedulers have.
bool is_for_want_of_resources() {
  const std::exception_ptr thrown = std::current_exception();
  if (!thrown) return std::uncaught_exceptions() > 0;
  try {
    std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    return true;
  } catch (const std::filesystem::filesystem_error&) {
    return false;
  } catch (const std::system_error& error) {
    return error.code() == std::errc::resource_unavailable_try_again ||
           error.code() == std::errc::not_enough_memory;
  } catch (...) {
    return false;
  }
}

void end() {
  if (!is_for_want_of_resources()) usual_end();
  // No memory is asked for here.
  constexpr std::string_view text =
      "troupe: error: out of memory, or of threads\n"
      "  try: use fewer threads, lower train.batch_size, or raise the limits (ulimit -v, ulimit "
      "-u)\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
  std::_Exit(exit_failed);
}

}  // namespace

void prepare_for_memory_shortage() {
  // The C library loads its unwinder when an exception first passes through it, and ends the
  // process where that fails: too late by then.
  void* here = nullptr;
  ::backtrace(&here, 1);
  if (usual_end == nullptr) usual_end = std::set_terminate(end);
}

}  // namespace troupe

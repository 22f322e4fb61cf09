#pragma once
// Errors. Mistakes (options, shapes, files) are thrown; expected failures (peers, full disks) are
// returned as Result.

#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace troupe {

/// What kind of mistake an Error is about. The command's exit code follows from it.
enum class ErrorCode {
  usage,          ///< a wrong command line (exit 2)
  bad_options,    ///< a wrong options file or override (exit 2)
  bad_shape,      ///< tensors that do not fit an operation
  bad_graph,      ///< a graph that cannot run
  bad_file,       ///< a file whose content is damaged or of another kind
  other_model,    ///< weights of another model than the one that shall take them
  io,             ///< the system refused to open, read or write
  out_of_memory,  ///< an allocator has no memory (OutOfMemory)
  timed_out,      ///< a wait ended without its event
  peer_lost,      ///< another process of the job has ended or cannot be reached
  device_lost,    ///< a GPU that failed; only a new process can use it or another one
  refused,        ///< another process refused this one: wrong run, rank or version
  wrong_key,      ///< another process of this job, or another program on its port, has another key
  unsupported,    ///< a combination that no kernel exists for
  actor_failed,   ///< an actor failed more often than its restart budget allows
  diverged,       ///< the loss is not finite
  bad_message,    ///< bytes from another process that are not a message of this run
  internal,       ///< a broken invariant: a bug in Troupe
};

/// Whether a repetition would meet the same error: a wrong option, file, shape or graph.
/// An actor that throws such an error is not replaced; the run fails with it at once.
constexpr bool is_lasting(ErrorCode code) {
  return code != ErrorCode::actor_failed && code != ErrorCode::internal &&
         code != ErrorCode::timed_out && code != ErrorCode::peer_lost;
}

/// An error for the user: the operation with its values, and what to try next.
///
/// `what()` has both in one line. Any thread may throw it; an actor turns it into one failure
/// message at its boundary.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, std::string message, std::string remedy = {});

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& remedy() const { return remedy_; }

 private:
  ErrorCode code_;
  std::string message_;
  std::string remedy_;
};

/// A value, or the reason why there is none. Callers must not ignore it.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : content_(std::move(value)) {}
  Result(Error error) : content_(std::move(error)) {}

  explicit operator bool() const { return content_.index() == 0; }
  T& value() { return check(), std::get<0>(content_); }
  const T& value() const { return check(), std::get<0>(content_); }
  const Error& error() const { return std::get<1>(content_); }

 private:
  void check() const {
    if (content_.index() != 0) throw std::get<1>(content_);
  }
  std::variant<T, Error> content_;
};

/// Success without a value, or an error.
using Status = Result<std::monostate>;
inline Status success() { return std::monostate{}; }

}  // namespace troupe

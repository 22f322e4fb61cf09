#pragma once
// Errors: throw for mistakes (options, shapes, files), return Result for weather (peers, full
// disks).

#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace troupe {

/// What kind of mistake an Error is about. The command's exit code follows from it.
enum class ErrorCode {
  usage,         ///< a wrong command line (exit 2)
  bad_options,   ///< a wrong options file or override (exit 2)
  bad_shape,     ///< tensors that do not fit an operation
  bad_graph,     ///< actors wired so that they cannot run
  bad_file,      ///< a file whose content is damaged or of another kind
  io,            ///< the system refused to open, read or write
  timed_out,     ///< somebody or something did not come in time
  peer_lost,     ///< another process of the job, or the way to it, is gone
  refused,       ///< another process would not have us: wrong key, run, rank or version
  unsupported,   ///< a combination that no kernel exists for
  actor_failed,  ///< an actor died more often than its restart budget allows
  diverged,      ///< training left the numbers: a loss that is not finite
  bad_message,   ///< another process sent what is no message of this run
  internal,      ///< a broken invariant: a bug in Troupe
};

/// Whether doing the same again can only meet the same error: a wrong option, file, shape or graph.
/// An actor that throws such an error is not replaced; the run fails with it at once.
constexpr bool is_lasting(ErrorCode code) {
  return code != ErrorCode::actor_failed && code != ErrorCode::internal &&
         code != ErrorCode::timed_out && code != ErrorCode::peer_lost;
}

/// A mistake, told to a person: what was done with which values, and what to try next.
///
/// `what()` is both sentences in one line. Thrown from any thread; an actor turns it into one
/// failure message at its boundary.
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

/// A value, or the weather that kept it from being had. Never ignore one.
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

/// Success without a value, or what went wrong.
using Status = Result<std::monostate>;
inline Status success() { return std::monostate{}; }

}  // namespace troupe

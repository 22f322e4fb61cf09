#pragma once
// The key of a job: who has it belongs to the job, who has not learns and changes nothing.

#include <string>

namespace troupe {

/// A CURVE25519 pair that all processes of one job share.
///
/// The secret half is all there is to know; it travels in the environment of the job's processes or
/// in a file that only the user can read, never on a command line.
struct JobKey {
  std::string public_key;  ///< 40 characters of Z85, as ZeroMQ wants it
  std::string secret_key;  ///< the same

  /// A new pair from the system's random source.
  static JobKey generate();

  /// The pair behind a secret half in 64 hexadecimal digits.
  /// Throws Error{bad_options} without repeating the text.
  static JobKey parse(const std::string& text);

  /// The secret half in 64 hexadecimal digits, safe in any shell or file.
  std::string text() const;

  bool operator==(const JobKey&) const = default;
};

}  // namespace troupe

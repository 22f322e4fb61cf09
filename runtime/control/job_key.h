#pragma once
// The key of a job. Without it a program can neither read nor change the job's control messages.

#include <string>

namespace troupe {

/// A CURVE25519 pair that all processes of one job share.
///
/// The secret half determines the pair. It is passed in the environment of the job's processes or
/// in a file that only the user can read, never on a command line.
struct JobKey {
  std::string public_key;  ///< 40 characters of Z85, as ZeroMQ expects
  std::string secret_key;  ///< the same

  /// A new pair, from random numbers of the system.
  static JobKey generate();

  /// The pair behind a secret half in 64 hexadecimal digits.
  /// Throws Error{bad_options} without repeating the text.
  static JobKey parse(const std::string& text);

  /// The secret half in 64 hexadecimal digits, safe in any shell or file.
  std::string text() const;

  bool operator==(const JobKey&) const = default;
};

}  // namespace troupe

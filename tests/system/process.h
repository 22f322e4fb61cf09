#pragma once
#include <string>
#include <vector>

namespace troupe {

/// What a process left behind.
struct Outcome {
  int exit_code = -1;  ///< 128 + the signal, if one ended it
  std::string out;
  std::string error;
};

/// Runs a program with arguments, without a shell, in `folder`, and waits for it.
Outcome run_process(const std::vector<std::string>& words, const std::string& folder = ".");

/// The digest that `inspect --digest` has printed; a failure of the test and the error if none.
std::string digest_in(const Outcome& outcome);

}  // namespace troupe

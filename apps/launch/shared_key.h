#pragma once
#include <filesystem>
#include <string>

#include "runtime/control/job_key.h"

namespace troupe {

/// The key that the launchers of one job agree on before they can speak: TROUPE_JOB_KEY, or the
/// file ~/.troupe/jobs/RUN.key, which whoever comes first makes and which only the user can read.
/// A home that is not shared between the hosts needs the variable.
class SharedKey {
 public:
  /// Throws Error: bad_options for a variable that holds no key, io for a file that cannot be
  /// made, read, or that others could have read or written.
  explicit SharedKey(const std::string& run_id);
  /// Removes the file if this process made it.
  ~SharedKey();
  SharedKey(const SharedKey&) = delete;
  SharedKey& operator=(const SharedKey&) = delete;

  const JobKey& key() const { return key_; }
  /// Where it is from, for messages: "TROUPE_JOB_KEY" or the file.
  const std::string& source() const { return source_; }

 private:
  JobKey key_;
  std::string source_;
  std::filesystem::path made_;
};

}  // namespace troupe

#pragma once
// The file with a job's key and coordinator, for processes that no launcher has given them.

#include <filesystem>
#include <optional>
#include <string>

#include "runtime/control/job_key.h"
#include "runtime/world/environment.h"

namespace troupe {

/// A file that only its user can read, on a file system that all hosts of the job share. It is
/// written under another name and then linked or renamed, so no process reads a part of it.
class JobFile {
 public:
  explicit JobFile(std::filesystem::path path) : path_(std::move(path)) {}

  /// TROUPE_JOB_FILE, else ~/.troupe/jobs/RUN. Throws Error{bad_options} if neither it nor HOME is
  /// set.
  static JobFile of_run(const Environment& environment, const std::string& run);

  /// Generates a key and creates the file with it; nothing if the file exists. Throws Error{io} if
  /// it cannot be written.
  std::optional<JobKey> create() const;

  /// The job's key, which the first process generates. Throws as create(), and Error{refused} if
  /// the file is not regular, or users other than its owner could have read or written it.
  JobKey key() const;

  /// The same of a file that another process has made. Throws Error{io} if there is none.
  JobKey present_key() const;

  /// tcp://HOST:PORT as last published; empty if none was published or there is no file.
  std::string coordinator() const;

  /// Throws Error{io}.
  void publish(const JobKey& key, const std::string& coordinator) const;

  /// Removes the file, unless it names another coordinator.
  void remove(const std::string& coordinator) const;

  /// Removes the file, unless it has another key.
  void remove(const JobKey& key) const;

  /// For a job that did not start: removes the file, unless it has another key or names a
  /// coordinator.
  void remove_unclaimed(const JobKey& key) const;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace troupe

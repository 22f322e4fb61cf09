#pragma once
// Where processes that no launcher introduced to each other leave the job's key and meeting place.

#include <filesystem>
#include <optional>
#include <string>

#include "runtime/control/job_key.h"
#include "runtime/world/environment.h"

namespace troupe {

/// A file that only its user can read and that all processes of a job see: it lies on the file
/// system that their hosts share. Written aside and linked or renamed, so never read half.
class JobFile {
 public:
  explicit JobFile(std::filesystem::path path) : path_(std::move(path)) {}

  /// TROUPE_JOB_FILE, else ~/.troupe/jobs/RUN. Throws Error{bad_options} if HOME is not set either.
  static JobFile of_run(const Environment& environment, const std::string& run);

  /// Draws a key and makes the file with it; nothing if there is a file already. Throws Error{io}
  /// where it cannot be written.
  std::optional<JobKey> create() const;

  /// The job's key: drawn by whichever process comes first. Throws as create(), and Error{refused}
  /// where others than the file's owner could have read or written it, or it is no regular file.
  JobKey key() const;

  /// tcp://HOST:PORT as last published; empty before that or if the file is gone.
  std::string coordinator() const;

  /// Throws Error{io}.
  void publish(const JobKey& key, const std::string& coordinator) const;

  /// Does nothing if the coordinator in it is another one's.
  void remove(const std::string& coordinator) const;

  /// Does nothing if another key is in it.
  void remove(const JobKey& key) const;

  /// Of a job that has come to nothing: does nothing if another key is in it, or a coordinator.
  void remove_unclaimed(const JobKey& key) const;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace troupe

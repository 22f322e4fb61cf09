#pragma once
#include <filesystem>

#include "apps/launch/launch_options.h"

namespace troupe {

/// The folder for the output and errors of a job's processes, laid out as torchrun's:
/// LOG_DIR/RUN_XXXXXX/attempt_0/LOCAL_RANK/{stdout.log,stderr.log,error.json}.
///
/// Without --log-dir it is a temporary folder, which is removed at the end if no output goes there.
class JobFolder {
 public:
  /// Throws Error (io).
  explicit JobFolder(const LaunchOptions& options);
  ~JobFolder();
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  bool kept() const { return kept_; }
  bool has_output() const { return has_output_; }  ///< not only error files
  /// Whether its disk is full.
  bool is_full() const;

  std::filesystem::path output(int local_rank, Outputs output) const;
  std::filesystem::path error_file(int local_rank) const;

 private:
  std::filesystem::path of(int local_rank) const;

  std::filesystem::path path_;
  bool kept_ = false, has_output_ = false;
};

}  // namespace troupe

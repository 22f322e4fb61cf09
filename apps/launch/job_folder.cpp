#include "apps/launch/job_folder.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/error.h"
#include "runtime/world/world.h"

namespace troupe {

namespace fs = std::filesystem;

JobFolder::JobFolder(const LaunchOptions& options) {
  const auto goes_there = [](unsigned outputs) { return outputs != no_output; };
  has_output_ = std::any_of(options.redirects.begin(), options.redirects.end(), goes_there) ||
                std::any_of(options.tees.begin(), options.tees.end(), goes_there);
  kept_ = has_output_ || !options.log_folder.empty();
  std::error_code failed;
  const fs::path parent = options.log_folder.empty() ? fs::temp_directory_path(failed)
                                                     : fs::absolute(options.log_folder);
  fs::create_directories(parent, failed);
  std::string name = (parent / (file_name_of(options.run_id) + "_XXXXXX")).string();
  if (::mkdtemp(name.data()) == nullptr)
    throw Error(ErrorCode::io,
                fmt::format("launch: cannot create a folder in {}: {}", parent.string(),
                            std::strerror(errno)),
                "choose another folder with --log-dir");
  path_ = name;
  for (int local_rank = 0; local_rank < options.processes; ++local_rank)
    fs::create_directories(of(local_rank), failed);
}

JobFolder::~JobFolder() {
  std::error_code ignored;
  if (!kept_) fs::remove_all(path_, ignored);
}

bool JobFolder::is_full() const {
  std::error_code failed;
  const fs::space_info space = fs::space(path_, failed);
  return !failed && space.capacity != 0 &&
         space.available == 0;  // some file systems report no sizes
}

fs::path JobFolder::of(int local_rank) const {
  return path_ / "attempt_0" / std::to_string(local_rank);
}

fs::path JobFolder::output(int local_rank, Outputs output) const {
  return of(local_rank) / (output == standard_output ? "stdout.log" : "stderr.log");
}

fs::path JobFolder::error_file(int local_rank) const { return of(local_rank) / "error.json"; }

}  // namespace troupe

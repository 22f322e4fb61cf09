#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace troupe {

/// The folder that a run writes to: outputs/YYYY-MM-DD/HH-MM-SS/ below the current folder, or the
/// one of -o. It is created on construction, before training starts, and removed at the end if the
/// run wrote nothing into it.
class OutputFolder {
 public:
  /// With `chosen`, that folder; it may exist. Otherwise a new folder named after `now` in local
  /// time; a second run of the same second gets "-2" behind its name. Throws Error{io} when the
  /// folder cannot be made or written, or while another process trains into it.
  static OutputFolder create(
      const std::optional<std::filesystem::path>& chosen,
      std::chrono::system_clock::time_point now = std::chrono::system_clock::now(),
      const std::filesystem::path& root = "outputs");

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path log() const { return path_ / "train.log"; }
  std::filesystem::path csv() const { return path_ / "train.csv"; }
  std::filesystem::path options() const { return path_ / "options_restart.yaml"; }
  std::filesystem::path trace() const { return path_ / "trace.json"; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }

  /// Writes options_restart.yaml, atomically. A file of other content, from an earlier start, is
  /// kept as options_restart-1.yaml, -2 and so on. Throws Error{io}.
  void write_options(const std::string& resolved) const;

 private:
  OutputFolder(std::filesystem::path path, bool is_new);
  std::filesystem::path path_;
  std::shared_ptr<const void> lock_;  ///< held until the last copy is gone, or the process
};

/// The newest output folder below `root` that holds checkpoints and that `fits` accepts; for
/// `--restart auto` without -o.
std::optional<std::filesystem::path> newest_output(
    const std::filesystem::path& root = "outputs",
    const std::function<bool(const std::filesystem::path& run)>& fits = {});

}  // namespace troupe

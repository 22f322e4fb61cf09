#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace troupe {

/// A text file that only ever holds whole lines, however full the disk is: what cannot be written
/// whole is taken away again, and a line that an earlier process left unfinished is cut off.
/// Used by one thread at a time, and by one process.
class LineFile {
 public:
  /// Makes the file where there is none. Throws Error{io} when it cannot be written.
  explicit LineFile(const std::filesystem::path& path);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  /// Its bytes; 0 of what is no ordinary file.
  std::int64_t size() const;
  /// Appends lines, the last one with its end. False, with nothing appended, when that fails.
  [[nodiscard]] bool append(std::string_view lines);
  /// Puts `text`, which ends the last line, in place of what begins at `offset`. False, with the
  /// old ending in its place, when that fails.
  [[nodiscard]] bool replace_end(std::int64_t offset, std::string_view text);

 private:
  void cut_unfinished_line();
  bool write(std::int64_t offset, std::string_view text);

  int descriptor_ = -1;
};

}  // namespace troupe

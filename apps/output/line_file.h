#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace troupe {

/// A text file of complete lines, also on a full disk: an incomplete write is removed, and so is an
/// incomplete line of an earlier process. Used by one thread at a time, and by one process.
class LineFile {
 public:
  /// Creates the file if there is none. Throws Error{io} when it cannot be written.
  explicit LineFile(const std::filesystem::path& path);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  /// Its size in bytes; 0 if it is no regular file.
  std::int64_t size() const;
  /// Appends lines, each with its line end. On failure returns false, with the cause in
  /// errno, and appends nothing.
  [[nodiscard]] bool append(std::string_view lines);
  /// Replaces everything from `offset` by `text`, which ends with a line end. On failure returns
  /// false and keeps the old text.
  [[nodiscard]] bool replace_end(std::int64_t offset, std::string_view text);

 private:
  void cut_unfinished_line();
  bool is_deleted() const;  ///< no name leads to it any more
  bool write(std::int64_t offset, std::string_view text);

  int descriptor_ = -1;
};

}  // namespace troupe

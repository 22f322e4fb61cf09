#pragma once
#include <atomic>
#include <filesystem>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "apps/launch/child.h"

namespace troupe {

/// Copies the output of processes to files, and line by line, with a prefix, to an output of the
/// launcher, so that lines of several processes never mix. A line of more than 64 KiB is split.
///
/// A thread of its own copies, so that a slow terminal delays the writing processes but not their
/// supervision.
class OutputPump {
 public:
  OutputPump();
  ~OutputPump() { finish(); }
  OutputPump(const OutputPump&) = delete;
  OutputPump& operator=(const OutputPump&) = delete;

  /// A descriptor for a process to write to; lines are copied to `console`, which stays open.
  /// Throws Error (io) if the file cannot be created.
  Fd add(const std::filesystem::path& file, int console, std::string prefix);

  /// Copies what has been written so far and ends, even if a process still holds an end open.
  void finish();

 private:
  struct Source {
    Fd reading, file;  ///< no file any more once it could not be written
    std::filesystem::path path;
    int console = 1;
    std::string prefix, line;
  };
  void run();
  static bool copy(Source& source);  ///< one read; false at its end
  static void drain(Source& source);
  static void print_lines(Source& source, bool all);

  std::mutex mutex_;  // the list; its elements belong to the thread
  std::list<Source> sources_;
  Fd wake_;
  std::atomic<bool> finishing_ = false;
  std::thread thread_;
};

/// The template with ${NAME} replaced: role_name, local_rank, rank, hostname.
std::string prefix_of(std::string text, const std::map<std::string, std::string>& macros);

/// A new file to write to; creates its folders. Throws Error (io).
Fd new_file(const std::filesystem::path& file);

}  // namespace troupe

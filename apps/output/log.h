#pragma once
#include <spdlog/logger.h>

#include <filesystem>
#include <memory>

namespace troupe {

/// A logger that appends lines with time and level to a file (train.log) at once, each completely
/// or not at all. Any thread may use it. Throws Error{io} when the file cannot be opened.
std::shared_ptr<spdlog::logger> open_log(const std::filesystem::path& path);

}  // namespace troupe

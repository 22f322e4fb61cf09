#pragma once
#include <spdlog/logger.h>

#include <filesystem>
#include <memory>

namespace troupe {

/// A logger that appends lines with time and level to a file (train.log), whole or not at all and
/// at once. Any thread may use it. Throws Error{io} when the file cannot be opened.
std::shared_ptr<spdlog::logger> open_log(const std::filesystem::path& path);

}  // namespace troupe

#include "apps/output/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/basic_file_sink.h>

#include "runtime/error.h"

namespace troupe {

std::shared_ptr<spdlog::logger> open_log(const std::filesystem::path& path) {
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path.string());
    auto logger = std::make_shared<spdlog::logger>("troupe", std::move(sink));
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
    logger->flush_on(spdlog::level::info);
    return logger;
  } catch (const spdlog::spdlog_ex& error) {
    throw Error(ErrorCode::io,
                fmt::format("{}: cannot be opened for writing: {}", path.string(), error.what()),
                "check permissions and free space of the output folder");
  }
}

}  // namespace troupe

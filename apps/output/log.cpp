#include "apps/output/log.h"

#include <spdlog/sinks/base_sink.h>

#include <mutex>

#include "apps/output/line_file.h"
#include "runtime/print.h"

namespace troupe {
namespace {

class LineSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit LineSink(const std::filesystem::path& path) : path_(path), file_(path) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    const bool written = file_.append({line.data(), line.size()});
    if (!written && !failed_)
      print_warning("{} could not be written; its lines are lost", path_.string());
    failed_ = !written;
  }
  void flush_() override {}  // nothing waits

  std::filesystem::path path_;
  LineFile file_;
  bool failed_ = false;
};

}  // namespace

std::shared_ptr<spdlog::logger> open_log(const std::filesystem::path& path) {
  auto logger = std::make_shared<spdlog::logger>("troupe", std::make_shared<LineSink>(path));
  logger->set_level(spdlog::level::debug);
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
  return logger;
}

}  // namespace troupe

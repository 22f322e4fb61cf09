#include "runtime/control/coordinator.h"

#include <fmt/format.h>

#include <thread>

#include "runtime/control/detail/coordinator_loop.h"
#include "runtime/quiet_thread.h"
#include "runtime/text.h"

namespace troupe {

class Coordinator::Implementation {
 public:
  explicit Implementation(const CoordinatorOptions& options)
      : loop(options), thread_(quiet_thread([this] { loop.run(); })) {}
  ~Implementation() {
    loop.stop();
    thread_.join();
  }

  control::CoordinatorLoop loop;

 private:
  std::thread thread_;
};

Result<std::unique_ptr<Coordinator>> Coordinator::start(const CoordinatorOptions& options) {
  try {
    return std::unique_ptr<Coordinator>(new Coordinator(std::make_unique<Implementation>(options)));
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return Error(ErrorCode::io, fmt::format("the coordinator cannot start: {}", error.what()),
                 "raise the limit of open files: ulimit -n");
  }
}

Coordinator::Coordinator(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}

Coordinator::~Coordinator() = default;

const std::string& Coordinator::endpoint() const { return implementation_->loop.endpoint(); }

ControlCounters Coordinator::counters() const { return implementation_->loop.counters(); }

void Coordinator::report_lost(int rank, std::string reason) {
  auto& loop = implementation_->loop;
  loop.post([&loop, rank, reason = std::move(reason)] { loop.report_lost(rank, reason); });
}

Status Coordinator::wait_for_end(std::chrono::milliseconds timeout) {
  if (implementation_->loop.wait_for_end(timeout)) return success();
  return Error(ErrorCode::timed_out,
               fmt::format("members have not left after {}", in_words(timeout)));
}

}  // namespace troupe

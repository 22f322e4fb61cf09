#pragma once
#include <future>
#include <memory>

#include "runtime/work.h"

namespace troupe {

/// Blocks until the work has ended.
inline Status wait_for(const WorkPtr& work) {
  const auto ended = std::make_shared<std::promise<Status>>();
  work->then([ended](const Status& status) { ended->set_value(status); });
  return ended->get_future().get();
}

}  // namespace troupe

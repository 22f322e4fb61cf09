#include "runtime/control/detail/open_requests.h"

namespace troupe::control {

std::pair<std::uint64_t, std::future<OpenRequests::Answer>> OpenRequests::add() {
  std::promise<Answer> promise;
  auto future = promise.get_future();
  open_.emplace(++last_id_, std::move(promise));
  return {last_id_, std::move(future)};
}

void OpenRequests::answer(std::uint64_t id, Answer answer) {
  auto request = open_.extract(id);
  if (!request.empty()) request.mapped().set_value(std::move(answer));
}

void OpenRequests::fail_all(const Error& error) {
  for (auto& [id, promise] : std::exchange(open_, {})) promise.set_value(error);
}

}  // namespace troupe::control

#include "runtime/transport/communicator_base.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace troupe::transport {

std::string CommunicatorBase::where() const {
  return fmt::format("{}, rank {} of {}", name_, rank_, size_);
}

void CommunicatorBase::check_peer(const char* what, int peer) const {
  if (peer < 0 || peer >= size_)
    throw Error(ErrorCode::internal, fmt::format("{}: {} with rank {}", where(), what, peer),
                fmt::format("ranks are 0 to {}", size_ - 1));
  if (peer == rank_)
    throw Error(ErrorCode::internal, fmt::format("{}: {} with itself", where(), what),
                "pass tensors within a process as they are");
}

WorkPtr CommunicatorBase::send(int to, std::uint64_t tag, Tensor tensor) {
  check_peer("send", to);
  if (!tensor.defined())
    throw Error(ErrorCode::internal, fmt::format("{}: send of an undefined tensor", where()));
  if (tensor.device() != device_)
    throw Error(ErrorCode::internal,
                fmt::format("{}: send of a tensor on {}", where(), to_string(tensor.device())),
                fmt::format("this communicator carries tensors on {}; copy the tensor there first",
                            to_string(device_)));
  auto work = std::make_shared<Work>();
  if (track(work)) start_send(to, tag, tensor, work);
  return work;
}

ReceivePtr CommunicatorBase::receive(int from, std::uint64_t tag, const TensorMeta& meta) {
  check_peer("receive", from);
  (void)Tensor::view(Storage::wrap(nullptr, meta.bytes(), device_, nullptr), 0, meta.shape,
                     meta.dtype, meta.layout);  // throws now if it could not be made later
  auto receive = std::make_shared<Receive>();
  if (track(receive)) start_receive(from, tag, meta, receive);
  return receive;
}

bool CommunicatorBase::track(const WorkPtr& work) {
  std::unique_lock lock(mutex_);
  if (ended_) {
    const Error error = *ended_;
    lock.unlock();
    work->finish(error);
    return false;
  }
  if (under_way_.size() >= prune_at_) {
    std::erase_if(under_way_, [](const auto& weak) {
      const WorkPtr held = weak.lock();
      return !held || held->done();
    });
    prune_at_ = 2 * under_way_.size() + 64;
  }
  under_way_.push_back(work);
  return true;
}

std::optional<Error> CommunicatorBase::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

Error CommunicatorBase::misfit(int from, std::uint64_t tag, const TensorMeta& sent,
                               const TensorMeta& wanted) const {
  return Error(ErrorCode::bad_graph,
               fmt::format("{}: rank {} sent {} with tag {}, rank {} receives {}", name_, from,
                           to_string(sent), tag, rank_, to_string(wanted)),
               "both ends of an edge must agree on shape, element type and layout");
}

Error CommunicatorBase::left(int peer) const {
  return Error(
      ErrorCode::peer_lost,
      fmt::format("{}: rank {} has closed its communicator, but is still needed", where(), peer));
}

void CommunicatorBase::abort(const Error& error) {
  std::vector<std::weak_ptr<Work>> works;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    ended_ = error;
    works.swap(under_way_);
  }
  interrupt(error);
  for (const auto& weak : works)
    if (const WorkPtr work = weak.lock()) work->finish(error);
}

void CommunicatorBase::fail(const Error& error) {
  {
    const std::lock_guard lock(notifying_);
    if (ended()) return;
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_) warn(peer, error);
  }
  abort(error);
}

void CommunicatorBase::end_as_reported(std::uint32_t code, std::string_view warning) {
  const bool known = code <= static_cast<std::uint32_t>(ErrorCode::internal);
  const std::size_t line = std::min(warning.find('\n'), warning.size());
  fail(Error(known ? static_cast<ErrorCode>(code) : ErrorCode::peer_lost,
             std::string(warning.substr(0, line)),
             std::string(warning.substr(std::min(line + 1, warning.size())))));
}

void CommunicatorBase::close() {
  abort(Error(ErrorCode::peer_lost, fmt::format("{}: the communicator was destroyed", where())));
}

}  // namespace troupe::transport

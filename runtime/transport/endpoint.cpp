#include "runtime/transport/endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "runtime/transport/collective.h"
#include "runtime/transport/tree_sum.h"

namespace troupe::transport {

std::string Endpoint::where() const {
  return fmt::format("{}, rank {} of {}", name(), rank_, size_);
}

void Endpoint::check_peer(const char* what, int peer) const {
  if (peer < 0 || peer >= size_)
    throw Error(ErrorCode::internal, fmt::format("{}: {} with rank {}", where(), what, peer),
                "ranks begin with 0");
}

void Endpoint::check_device(const char* what, Device device) const {
  if (device.kind != Device::Kind::cpu)
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: {} of a tensor on {}", where(), what, to_string(device)),
                "this transport moves tensors of the CPU only; copy it there first");
}

void Endpoint::check_tensor(const char* what, const Tensor& tensor) const {
  if (!tensor.defined())
    throw Error(ErrorCode::internal, fmt::format("{}: {} of an undefined tensor", where(), what));
  check_device(what, tensor.device());
}

WorkPtr Endpoint::send(int to, std::uint64_t tag, Tensor tensor) {
  check_peer("send", to);
  if (to == rank_)
    throw Error(ErrorCode::internal, fmt::format("{}: send to itself", where()),
                "inside a process tensors are handed over as they are");
  check_tensor("send", tensor);
  auto work = std::make_shared<Work>();
  if (track(work)) start_send(to, tag, tensor, work);
  return work;
}

ReceivePtr Endpoint::receive(int from, std::uint64_t tag, const TensorMeta& meta) {
  check_peer("receive", from);
  if (from == rank_)
    throw Error(ErrorCode::internal, fmt::format("{}: receive from itself", where()),
                "inside a process tensors are handed over as they are");
  check_device("receive", meta.device);
  (void)Tensor::view(Storage::wrap(nullptr, meta.bytes(), meta.device, nullptr), 0, meta.shape,
                     meta.dtype, meta.layout);  // throws now if it could not be made later
  auto receive = std::make_shared<Receive>();
  if (track(receive)) start_receive(from, tag, meta, receive);
  return receive;
}

WorkPtr Endpoint::broadcast(int root, std::uint64_t tag, Tensor tensor) {
  check_peer("broadcast", root);
  check_tensor("broadcast", tensor);
  return collective(tag, {CollectiveCall::Kind::broadcast, root, TensorMeta::of(tensor)}, tensor,
                    tensor);
}

WorkPtr Endpoint::all_reduce(std::uint64_t tag, Tensor tensor) {
  check_tensor("all_reduce", tensor);
  return collective(tag, {CollectiveCall::Kind::all_reduce, 0, TensorMeta::of(tensor)}, tensor,
                    tensor);
}

void Endpoint::check_parts(const char* what, const Tensor& whole, const Tensor& part) const {
  check_tensor(what, whole);
  check_tensor(what, part);
  if (whole.dtype() != part.dtype() || whole.element_count() != size_ * part.element_count())
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: {} of {} as the whole and {} as a part", where(), what,
                            to_string(TensorMeta::of(whole)), to_string(TensorMeta::of(part))),
                fmt::format("the whole has {} times the elements of a part", size_));
}

WorkPtr Endpoint::all_gather(std::uint64_t tag, Tensor in, Tensor out) {
  check_parts("all_gather", out, in);
  const CollectiveCall call{CollectiveCall::Kind::all_gather, 0, TensorMeta::of(in)};
  return collective(tag, call, std::move(in), std::move(out));
}

WorkPtr Endpoint::reduce_scatter(std::uint64_t tag, Tensor in, Tensor out) {
  check_parts("reduce_scatter", in, out);
  const CollectiveCall call{CollectiveCall::Kind::reduce_scatter, 0, TensorMeta::of(in)};
  return collective(tag, call, std::move(in), std::move(out));
}

WorkPtr Endpoint::collective(std::uint64_t tag, CollectiveCall call, Tensor in, Tensor out) {
  const bool sums = call.kind == CollectiveCall::Kind::all_reduce ||
                    call.kind == CollectiveCall::Kind::reduce_scatter;
  if (sums && !has_sum(in.dtype()))
    throw Error(ErrorCode::unsupported, fmt::format("{}: {}", where(), to_string(call)),
                "sums are there for f32, f64, bf16, f16, i32 and i64");
  auto work = std::make_shared<Work>();
  std::unique_lock lock(opening_);
  if (const auto error = ended()) {
    work->finish(*error);
    return work;
  }
  std::shared_ptr<Exchange> exchange = open_exchange(tag, call, in, out);
  try {
    crew_->run([this, exchange, call, in = std::move(in), out = std::move(out), work]() mutable {
      Status status = carry_out(*exchange, call, in, out);
      exchange.reset();
      in = out = {};
      work->finish(std::move(status));
    });
  } catch (const std::system_error& error) {  // the peers have been told of the call
    lock.unlock();
    const Error why(ErrorCode::io,
                    fmt::format("{}: a thread for {}: {}", where(), to_string(call), error.what()),
                    "raise the limits of memory (ulimit -v) and of processes (ulimit -u)");
    fail(why);
    work->finish(why);
  }
  return work;
}

/// Whatever comes of it, no byte of the tensors is read or written afterwards.
Status Endpoint::carry_out(Exchange& exchange, const CollectiveCall& call, const Tensor& in,
                           const Tensor& out) {
  Status status = success();
  try {
    run_collective(exchange, call, rank_, size_, in, out);
  } catch (const Error& error) {
    status = error;
  } catch (const std::exception& error) {
    status = Error(ErrorCode::internal,
                   fmt::format("{}: {}: {}", where(), to_string(call), error.what()));
  }
  if (status) return status;
  fail(status.error());
  std::unique_lock lock(mutex_);
  came_to_rest_.wait(lock, [&] { return at_rest_; });  // another thread may have ended it before
  return status;
}

bool Endpoint::track(const WorkPtr& work) {
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

std::optional<Error> Endpoint::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

Error Endpoint::misfit(int from, std::uint64_t tag, const TensorMeta& sent,
                       const TensorMeta& wanted) const {
  return Error(ErrorCode::bad_graph,
               fmt::format("{}: rank {} sent {} with tag {}, rank {} receives {}", name(), from,
                           to_string(sent), tag, rank_, to_string(wanted)),
               "both ends of an edge must agree on shape, element type and layout");
}

Error Endpoint::misfit(int peer, std::uint64_t tag, const CollectiveCall& theirs,
                       const CollectiveCall& ours) const {
  return Error(ErrorCode::bad_graph,
               fmt::format("{}: with tag {} rank {} calls {}, rank {} {}", name(), tag, peer,
                           to_string(theirs), rank_, to_string(ours)),
               "all ranks must call a collective alike");
}

Error Endpoint::left(int peer) const {
  return Error(ErrorCode::peer_lost,
               fmt::format("{}: rank {} has ended its part and is still needed", where(), peer));
}

void Endpoint::abort(const Error& error) {
  std::vector<std::weak_ptr<Work>> works;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    ended_ = error;
    works.swap(under_way_);
  }
  interrupt(error);
  {
    const std::lock_guard lock(mutex_);
    at_rest_ = true;
    came_to_rest_.notify_all();
  }
  for (const auto& weak : works)
    if (const WorkPtr work = weak.lock()) work->finish(error);
}

void Endpoint::fail(const Error& error) {
  {
    const std::lock_guard lock(telling_);
    if (ended()) return;
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_) warn(peer, error);
  }
  abort(error);
}

void Endpoint::end_as_told(std::uint32_t code, std::string_view warning) {
  const bool known = code <= static_cast<std::uint32_t>(ErrorCode::internal);
  const std::size_t line = std::min(warning.find('\n'), warning.size());
  fail(Error(known ? static_cast<ErrorCode>(code) : ErrorCode::peer_lost,
             std::string(warning.substr(0, line)),
             std::string(warning.substr(std::min(line + 1, warning.size())))));
}

void Endpoint::close() {
  abort(Error(ErrorCode::peer_lost, fmt::format("{}: the communicator was destroyed", where())));
  { const std::lock_guard lock(opening_); }  // who opens one now finds the end, or the crew
  crew_.reset();
}

}  // namespace troupe::transport

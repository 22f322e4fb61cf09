#include "runtime/transport/shm/sender.h"

#include <cstring>
#include <utility>

#include "runtime/transport/described.h"

namespace troupe::transport {

void ShmSender::send(Arena& arena, std::uint64_t tag, const Tensor& tensor, const WorkPtr& work) {
  std::optional<Error> error;
  bool waits = false;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) {
      error = closed_;
    } else {
      Ready ready{{}, arena.allocate(tensor.bytes()), work};
      if (tensor.bytes() != 0) std::memcpy(ready.block.data(), tensor.raw(), tensor.bytes());
      ready.descriptor.tag = tag;
      describe(TensorMeta::of(tensor), ready.descriptor);
      ready.descriptor.set_block(ready.block, tensor.bytes());
      waits = !ready_.empty() || !write(ready);
      if (waits) {
        ready_.push_back(std::move(ready));
        waits_ = true;
      }
    }
  }
  if (waits)
    wake_engine_();
  else
    work->finish(error ? Status(*error) : success());
}

bool ShmSender::flush() {
  std::vector<WorkPtr> done;
  {
    const std::lock_guard lock(mutex_);
    for (; !ready_.empty() && write(ready_.front()); ready_.pop_front())
      done.push_back(std::move(ready_.front().work));
    waits_ = !ready_.empty();
  }
  for (const WorkPtr& work : done) work->finish(success());
  return !done.empty();
}

void ShmSender::close(const Error& error) {
  std::deque<Ready> lost;
  {
    const std::lock_guard lock(mutex_);
    if (!closed_) closed_ = error;
    lost.swap(ready_);
    waits_ = false;
  }
  for (const Ready& ready : lost) {
    ready.block.free();
    ready.work->finish(error);
  }
}

bool ShmSender::announce(const Segment& segment) {
  if (announced_.contains(segment.number)) return true;
  Signal signal;
  signal.kind = Signal::Kind::segment;
  signal.number = segment.number;
  signal.bytes = segment.memory->bytes();
  const SendOutcome outcome = send_signal(connection_->socket(), signal, {segment.memory->fd()});
  if (outcome == SendOutcome::full) socket_full_ = true;
  if (outcome == SendOutcome::sent) announced_.insert(segment.number);
  return outcome != SendOutcome::full;  // where the peer is gone, the receiving thread notices that
}

bool ShmSender::write(const Ready& ready) {
  if (!announce(*ready.block.segment)) return false;
  const RingWriter::Outcome outcome = writer_.write(ready.descriptor);
  if (outcome == RingWriter::Outcome::full) return false;
  if (outcome == RingWriter::Outcome::damaged) {
    damaged_ = true;  // for the receiving thread to report
    wake_engine_();
  }
  connection_->ring_for_descriptor();
  return true;
}

}  // namespace troupe::transport

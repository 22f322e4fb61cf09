#include "runtime/transport/shm/receiver.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/transport/described.h"

namespace troupe::transport {

Tensor ShmArrival::tensor() const {
  auto storage = Storage::wrap(const_cast<std::byte*>(data), meta.bytes(), {}, block);
  return Tensor::view(std::move(storage), 0, meta.shape, meta.dtype, meta.layout);
}

Error ShmReceiver::damaged(const std::string& what) const {
  return Error(ErrorCode::bad_message, fmt::format("{} is damaged: {}", peer_, what),
               "the peer has a memory error; run it under a sanitizer");
}

std::optional<ShmArrival> ShmReceiver::next_tensor() {
  Descriptor descriptor;
  const RingReader::Outcome outcome = reader_.read(descriptor);
  if (outcome == RingReader::Outcome::empty) return std::nullopt;
  if (outcome == RingReader::Outcome::damaged)
    throw damaged("its ring contains an invalid descriptor");
  ShmArrival arrival;
  arrival.tag = descriptor.tag;
  try {
    arrival.meta = described(descriptor);
  } catch (const Error& error) {
    throw damaged(error.message());
  }
  const auto segment = segment_of(descriptor);
  const SharedMemory& memory = *segment->memory;
  const bool inside = descriptor.offset % block_header_bytes == 0 &&
                      descriptor.offset < memory.bytes() &&
                      memory.bytes() - descriptor.offset >= block_header_bytes &&
                      memory.bytes() - descriptor.offset - block_header_bytes >= descriptor.bytes;
  if (!inside)
    throw damaged(fmt::format("a block of {} bytes at {} is outside of its segment of {}",
                              descriptor.bytes, descriptor.offset, memory.bytes()));
  auto& header = *reinterpret_cast<BlockHeader*>(memory.data() + descriptor.offset);
  if (header.use.load(std::memory_order_acquire) != descriptor.use || header.holders == 0)
    throw damaged("a block was reused before it was freed");
  arrival.data = memory.data() + descriptor.offset + block_header_bytes;
  arrival.block = std::make_shared<BorrowedBlock>(segment, header);
  if (arrival.meta.bytes() != descriptor.bytes)
    throw damaged("a tensor's bytes are not those of its shape");
  return arrival;
}

std::shared_ptr<const Segment> ShmReceiver::segment_of(const Descriptor& descriptor) {
  auto found = segments_.find(descriptor.segment);
  // The sender announced it before it wrote the descriptor.
  while (found == segments_.end() && read_signal()) found = segments_.find(descriptor.segment);
  if (found == segments_.end())
    throw damaged(fmt::format("it names segment {}", descriptor.segment));
  return found->second;
}

std::optional<Signal> ShmReceiver::next_signal() {
  while (signals_.empty() && read_signal()) {
  }
  if (signals_.empty()) return std::nullopt;
  Signal signal = std::move(signals_.front());
  signals_.pop_front();
  return signal;
}

bool ShmReceiver::read_signal() {
  Signal signal;
  switch (receive_signal(connection_->socket(), signal)) {
    case ReceiveOutcome::none:
      return false;
    case ReceiveOutcome::damaged:
      throw damaged("its socket contains an invalid message");
    case ReceiveOutcome::no_descriptor:
      throw Error(ErrorCode::io,
                  fmt::format("{} could not be opened: {}", peer_, std::strerror(EMFILE)),
                  "raise the number of open files (ulimit -n)");
    case ReceiveOutcome::gone:
      signal.kind = Signal::Kind::lost;
      signals_.push_back(std::move(signal));
      return false;
    case ReceiveOutcome::received:
      break;
  }
  switch (signal.kind) {
    case Signal::Kind::segment:
      add_segment(std::move(signal));
      break;
    case Signal::Kind::hello:
      throw damaged("its socket contains a second hello");
    case Signal::Kind::warning:
    case Signal::Kind::closing:
    case Signal::Kind::lost:
      signals_.push_back(std::move(signal));
  }
  return true;
}

void ShmReceiver::add_segment(Signal signal) {
  if (signal.fds.size() != 1 || segments_.contains(signal.number))
    throw damaged("a segment came without memory, or twice");
  segments_[signal.number] = std::make_shared<Segment>(
      Segment{signal.number, SharedMemory::open(std::move(signal.fds[0]), signal.bytes)});
}

}  // namespace troupe::transport

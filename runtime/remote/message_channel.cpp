#include "runtime/remote/message_channel.h"

#include <fmt/format.h>

#include <cstring>

namespace troupe::remote {
namespace {

/// Most messages are 40 to 200 bytes.
constexpr std::size_t frame_bytes = 512;
constexpr std::size_t text_bytes = frame_bytes - sizeof(std::uint32_t);

// The tags of packets' tensors count from 0.
constexpr std::uint64_t frame_tags = std::uint64_t{1} << 62;
constexpr std::uint64_t long_text_tags = std::uint64_t{1} << 63;

TensorMeta bytes_meta(std::size_t bytes) {
  return {.shape = Shape{static_cast<std::int64_t>(bytes)}, .dtype = DType::u8};
}

Tensor bytes_of(const std::string& text) {
  Tensor tensor = Tensor::empty(bytes_meta(text.size()).shape, DType::u8, Device::cpu());
  std::memcpy(tensor.raw(), text.data(), text.size());
  return tensor;
}

std::string_view text_of(const std::byte* from, std::size_t bytes) {
  return {reinterpret_cast<const char*>(from), bytes};
}

}  // namespace

void MessageChannel::open(CallGate& gate, OnMessage on_message, OnDamage on_damage) {
  gate_ = &gate;
  on_message_ = std::move(on_message);
  on_damage_ = std::move(on_damage);
  listen();
}

/// Takes frame after frame; requests the next one after the callback for the last one.
void MessageChannel::listen() {
  for (bool more = true; more;) {
    const ReceivePtr frame =
        communicator_.receive(peer_, frame_tags + received_, bytes_meta(frame_bytes));
    if (!frame->done())
      return frame->then(gate_->guard([this, frame](const Status& status) {
        if (take(*frame, status)) listen();
      }));
    more = take(*frame, frame->status());
  }
}

bool MessageChannel::take(const Receive& frame, const Status& status) {
  if (!status) return failed(status.error());
  const Tensor tensor = frame.tensor();
  const std::uint64_t number = received_++;
  std::uint32_t length = 0;
  std::memcpy(&length, tensor.raw(), sizeof length);
  if (length > text_bytes) return take_long(number, length);
  on_message_(text_of(tensor.raw() + sizeof length, length));
  return true;
}

// The text was sent before its frame through the same ring, so it is here. This thread must not
// wait.
bool MessageChannel::take_long(std::uint64_t number, std::size_t length) {
  const auto text = communicator_.receive(peer_, long_text_tags + number, bytes_meta(length));
  if (!text->done())
    return failed(
        Error(ErrorCode::bad_message,
              fmt::format("rank {} announced {} bytes but did not send them", peer_, length),
              "run the same version of the program in every process"));
  if (const Status status = text->status(); !status) return failed(status.error());
  on_message_(text_of(text->tensor().raw(), length));
  return true;
}

bool MessageChannel::failed(const Error& error) {
  if (error.code() != ErrorCode::peer_lost) on_damage_(error);
  return false;
}

void MessageChannel::send(const std::string& body) {
  const bool is_long = body.size() > text_bytes;
  Tensor text = is_long ? bytes_of(body) : Tensor();
  Tensor frame = Tensor::empty(bytes_meta(frame_bytes).shape, DType::u8, Device::cpu());
  const auto length = static_cast<std::uint32_t>(body.size());
  std::memcpy(frame.raw(), &length, sizeof length);
  if (!is_long) std::memcpy(frame.raw() + sizeof length, body.data(), body.size());
  const std::uint64_t number = sent_++;  // after the allocations: the receiver waits for each one
  if (is_long) communicator_.send(peer_, long_text_tags + number, std::move(text));
  communicator_.send(peer_, frame_tags + number, std::move(frame));
}

}  // namespace troupe::remote

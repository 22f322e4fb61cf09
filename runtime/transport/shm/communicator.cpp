#include "runtime/transport/shm/communicator.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/transport/described.h"
#include "runtime/transport/receive_waiter.h"

namespace troupe::transport {
namespace {

void give_up(const Block& block) { block.header().holders.fetch_sub(1, std::memory_order_release); }

}  // namespace

void ShmCommunicator::Ends::tell() const {
  for (const WorkPtr& work : done) work->finish(success());
  for (const WorkPtr& work : lost) work->finish(*error);
}

Tensor ShmArrival::tensor() const {
  auto storage = Storage::wrap(const_cast<std::byte*>(data), bytes, {}, slot);
  return Tensor::view(std::move(storage), 0, meta.shape, meta.dtype, meta.layout);
}

ShmCommunicator::ShmCommunicator(int rank, std::vector<std::shared_ptr<Wire>> wires, Fd bell,
                                 std::size_t memory_limit)
    : Endpoint(rank, static_cast<int>(wires.size())), bell_(std::move(bell)), arena_(memory_limit) {
  for (auto& wire : wires)
    peers_.push_back(wire ? std::make_unique<Peer>(std::move(wire)) : nullptr);
  engine_ = std::thread([this] { serve(); });
}

ShmCommunicator::~ShmCommunicator() {
  close();
  stopping_ = true;
  kick();
  engine_.join();
  for (const auto& peer : peers_) {
    if (!peer) continue;
    send_note(peer->wire->socket(),
              Note{.kind = Note::Kind::goodbye, .number = 0, .bytes = 0, .text = {}, .fds = {}});
    ::shutdown(peer->wire->socket(), SHUT_RDWR);  // received tensors may hold the wire for long
    // The peer of a socket that is closed with something unread in it finds a broken connection
    // before it finds the goodbye.
    for (auto left = ReceiveOutcome::received;
         left == ReceiveOutcome::received || left == ReceiveOutcome::damaged;) {
      Note unread;
      left = receive_note(peer->wire->socket(), unread);
    }
  }
}

void ShmCommunicator::kick() {
  const std::uint64_t one = 1;
  (void)!::write(bell_.get(), &one, sizeof one);
}

void ShmCommunicator::start_send(int to, std::uint64_t tag, const Tensor& tensor,
                                 const WorkPtr& work) {
  if (!arena_.could_hold(tensor.bytes()))
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: sending {} needs more shared memory than its limit", where(),
                            to_string(TensorMeta::of(tensor))),
                "raise the limit to what the edges' slots hold together");
  Ends ends;
  std::optional<Error> error;
  bool waits = false;
  try {
    Peer& peer = *at(to);
    const std::lock_guard lock(peer.mutex);
    if (peer.left) {
      error = peer.left;
    } else if (!interrupted_ &&
               (!peer.waiting.empty() || !place(peer, {tag, tensor, work}, ends))) {
      peer.waiting.push_back({tag, tensor, work});
      peer.backlog = waits = true;
    }
  } catch (const Error& thrown) {
    fail(thrown);
  }
  if (waits || arena_.has_retired()) kick();
  ends.tell();
  if (error) work->finish(*error);
}

void ShmCommunicator::start_receive(int from, std::uint64_t tag, const TensorMeta& meta,
                                    const ReceivePtr& receive) {
  inbox_.expect({from, tag},
                std::make_shared<ReceiveWaiter<ShmArrival>>(*this, from, tag, meta, receive));
}

bool ShmCommunicator::place(Peer& peer, const Waiting& send, Ends& ends) {
  const auto block = arena_.allocate(send.tensor.bytes());
  if (!block) return false;
  if (send.tensor.bytes() != 0) std::memcpy(block->data(), send.tensor.raw(), send.tensor.bytes());
  Descriptor descriptor;
  descriptor.tag = send.tag;
  describe(TensorMeta::of(send.tensor), descriptor);
  descriptor.set_block(*block, send.tensor.bytes());
  push(peer, {descriptor, block, send.work}, ends);
  return true;
}

bool ShmCommunicator::announce(Peer& peer, const Segment& segment) {
  if (peer.announced.count(segment.number) != 0) return true;
  Note note;
  note.kind = Note::Kind::segment;
  note.number = segment.number;
  note.bytes = segment.memory->bytes();
  const SendOutcome outcome = send_note(peer.wire->socket(), note, {segment.memory->fd()});
  if (outcome == SendOutcome::full) peer.socket_full = true;
  if (outcome == SendOutcome::sent) peer.announced.insert(segment.number);
  return outcome != SendOutcome::full;  // where the peer is gone, the engine hears it
}

bool ShmCommunicator::write(Peer& peer, Ready& ready, Ends& ends) {
  if (ready.block && !announce(peer, *ready.block->segment)) return false;
  const RingWriter::Outcome outcome = peer.writer.write(ready.descriptor);
  if (outcome == RingWriter::Outcome::full) return false;
  if (outcome == RingWriter::Outcome::damaged) {
    peer.ring_damaged = true;  // for the engine to report
    kick();
  }
  peer.wire->ring_for_descriptor();
  ends.done.push_back(std::move(ready.work));
  return true;
}

void ShmCommunicator::push(Peer& peer, Ready ready, Ends& ends) {
  if (interrupted_ || peer.left) {
    if (ready.block) give_up(*ready.block);
    ends.lost.push_back(std::move(ready.work));
    ends.error = peer.left ? peer.left : ended();
    return;
  }
  if (peer.ready.empty() && write(peer, ready, ends)) return;
  peer.ready.push_back(std::move(ready));
  peer.backlog = true;
  kick();
}

bool ShmCommunicator::flush(int rank) {
  Peer& peer = *at(rank);
  Ends ends;
  {
    const std::lock_guard lock(peer.mutex);
    while (!peer.ready.empty() && write(peer, peer.ready.front(), ends)) peer.ready.pop_front();
    while (!peer.waiting.empty() && peer.ready.empty() && place(peer, peer.waiting.front(), ends))
      peer.waiting.pop_front();
    peer.backlog = !peer.ready.empty() || !peer.waiting.empty();
  }
  ends.tell();
  return !ends.done.empty();
}

void ShmCommunicator::retire_segments() {
  const std::vector<std::uint32_t> retired = arena_.take_retired();
  for (const auto& peer : peers_) {
    if (!peer) continue;
    const std::lock_guard lock(peer->mutex);
    for (const std::uint32_t number : retired)
      if (peer->announced.erase(number) != 0) peer->retired.push_back(number);
    while (!peer->retired.empty()) {
      Note note;
      note.kind = Note::Kind::retired;
      note.number = peer->retired.back();
      if (send_note(peer->wire->socket(), note) == SendOutcome::full) break;  // later, or never
      peer->retired.pop_back();
    }
  }
}

ShmCommunicator::Ends ShmCommunicator::drop_backlog(Peer& peer, const Error& error) {
  Ends ends;
  ends.error = error;
  for (const Ready& ready : peer.ready) {
    if (ready.block) give_up(*ready.block);
    ends.lost.push_back(ready.work);
  }
  for (const Waiting& waiting : peer.waiting) ends.lost.push_back(waiting.work);
  peer.ready.clear();
  peer.waiting.clear();
  peer.backlog = false;
  return ends;
}

void ShmCommunicator::interrupt(const Error& error) {
  interrupted_ = true;
  for (const auto& peer : peers_) {
    if (!peer) continue;
    Ends ends;
    {
      const std::lock_guard lock(peer->mutex);  // what is being copied now is not handed on
      ends = drop_backlog(*peer, error);
    }
    ends.tell();
  }
  inbox_.close(error);
}

void ShmCommunicator::warn(int peer, const Error& error) {
  Note note;
  note.kind = Note::Kind::warning;
  note.number = static_cast<std::uint32_t>(error.code());
  note.text = warning_of(error);
  send_note(at(peer)->wire->socket(), note);
}

}  // namespace troupe::transport

namespace troupe {

Result<std::unique_ptr<Communicator>> make_shm_communicator(Store& store, int rank, int size,
                                                            const ShmOptions& options) {
  using namespace transport;
  Fd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell)
    return Error(ErrorCode::io, fmt::format("shm: eventfd: {}", std::strerror(errno)),
                 "set parallel.transport: gloo");
  auto wires = connect_all(store, rank, size, options.group, options.timeout, bell.get());
  if (!wires) return wires.error();
  return std::unique_ptr<Communicator>(std::make_unique<ShmCommunicator>(
      rank, std::move(wires.value()), std::move(bell), options.memory_limit));
}

}  // namespace troupe

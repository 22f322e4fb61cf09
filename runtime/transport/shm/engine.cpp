// The thread that reads what peers say.

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "runtime/transport/described.h"
#include "runtime/transport/shm/communicator.h"

namespace troupe::transport {
namespace {

/// So often the engine looks again before it sleeps: a few microseconds, for answers that are
/// almost there. More would take the processor from those who are to answer.
constexpr int looks_before_sleep = 50;

}  // namespace

void ShmCommunicator::serve() {
  while (!stopping_) {
    bool busy = false;
    for (int i = 0; i < looks_before_sleep && !busy; ++i) busy = look();
    if (!busy) sleep();
  }
}

bool ShmCommunicator::look() {
  const std::lock_guard lock(receiving_);
  if (interrupted_) return false;
  bool busy = false;
  for (int rank = 0; rank < size(); ++rank) {
    Peer* peer = at(rank);
    if (!peer) continue;
    try {
      if (!peer->hung_up && drain(rank)) busy = true;
      if (peer->backlog && flush(rank)) busy = true;
      if (peer->ring_damaged) throw damaged(rank, "a position in its ring is impossible");
    } catch (const Error& error) {
      fail(error);
      return true;
    }
  }
  if (arena_.has_retired()) retire_segments();
  return busy;
}

/// The flags are raised before the last look, and a peer writes before it reads them: one of the
/// two sees the other.
void ShmCommunicator::sleep() {
  bool backlog = false;
  for (const auto& peer : peers_) backlog = backlog || (peer && peer->backlog);
  {
    const std::lock_guard lock(attention_);
    if (!may_wait_) raise_flags(1);
  }
  for (const auto& peer : peers_)
    if (peer) peer->wire->mine().wants_room = backlog ? 1 : 0;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!look() && !stopping_) await_news();
  raise_flags(0);  // it looks again before it sleeps
}

void ShmCommunicator::raise_flags(std::uint32_t sleeping) {
  for (const auto& peer : peers_)
    if (peer) peer->wire->mine().sleeping = sleeping;
}

void ShmCommunicator::defer_delivery() {
  const std::lock_guard lock(attention_);
  may_wait_ = true;
  raise_flags(0);
}

/// The flags are raised for the engine, which may be asleep without them, before the look: as in
/// sleep(), no arrival is missed by both.
void ShmCommunicator::deliver_pending() {
  {
    const std::lock_guard lock(attention_);
    if (!may_wait_) return;
    may_wait_ = false;
    raise_flags(1);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  look();
}

/// What is waited for follows from the last look, which may have found a socket full.
void ShmCommunicator::await_news() {
  std::vector<pollfd> waits{{bell_.get(), POLLIN, 0}};
  std::vector<int> ranks{rank()};
  std::unique_lock lock(receiving_);
  for (int rank = 0; rank < size(); ++rank) {
    const Peer* peer = at(rank);
    if (!peer || peer->hung_up || interrupted_) continue;
    waits.push_back({peer->wire->socket(),
                     static_cast<short>(peer->socket_full ? POLLIN | POLLOUT : POLLIN), 0});
    ranks.push_back(rank);
  }
  lock.unlock();
  ::poll(waits.data(), waits.size(), -1);
  std::uint64_t rings = 0;
  (void)!::read(bell_.get(), &rings, sizeof rings);
  lock.lock();
  for (std::size_t i = 1; i < waits.size() && !interrupted_; ++i) {
    if ((waits[i].revents & POLLOUT) != 0) at(ranks[i])->socket_full = false;
    if ((waits[i].revents & ~POLLOUT) != 0) read_notes(ranks[i]);
  }
}

bool ShmCommunicator::drain(int rank) {
  Peer& peer = *at(rank);
  Descriptor descriptor;
  bool any = false;
  for (std::uint64_t i = 0; i < Ring::capacity && !interrupted_; ++i) {
    const RingReader::Outcome outcome = peer.reader.read(descriptor);
    if (outcome == RingReader::Outcome::empty) break;
    if (outcome == RingReader::Outcome::damaged)
      throw damaged(rank, "its ring holds what no sender writes");
    any = true;
    handle(rank, descriptor);
  }
  if (any) peer.wire->ring_for_room();
  return any;
}

void ShmCommunicator::handle(int rank, const Descriptor& descriptor) {
  ShmArrival arrival;
  arrival.slot = open_slot(rank, descriptor, arrival.data);
  arrival.bytes = descriptor.bytes;
  arrival.meta = meta_in(rank, descriptor);
  if (arrival.meta.bytes() != descriptor.bytes)
    throw damaged(rank, "a tensor's bytes are not those of its shape");
  inbox_.arrive({rank, descriptor.tag}, std::move(arrival));
}

TensorMeta ShmCommunicator::meta_in(int rank, const Descriptor& descriptor) const {
  try {
    return described(descriptor);
  } catch (const Error& error) {
    throw damaged(rank, error.message());
  }
}

std::shared_ptr<Slot> ShmCommunicator::open_slot(int rank, const Descriptor& descriptor,
                                                 const std::byte*& data) {
  Peer& peer = *at(rank);
  auto found = peer.segments.find(descriptor.segment);
  if (found == peer.segments.end()) {
    read_notes(rank);  // it was sent before the descriptor was written
    found = peer.segments.find(descriptor.segment);
  }
  if (found == peer.segments.end())
    throw damaged(rank, fmt::format("it names segment {}", descriptor.segment));
  const SharedMemory& memory = *found->second->memory;
  const bool inside = descriptor.offset % block_header_bytes == 0 &&
                      descriptor.offset < memory.bytes() &&
                      memory.bytes() - descriptor.offset >= block_header_bytes &&
                      memory.bytes() - descriptor.offset - block_header_bytes >= descriptor.bytes;
  if (!inside)
    throw damaged(rank, fmt::format("a block of {} bytes at {} is outside of its segment of {}",
                                    descriptor.bytes, descriptor.offset, memory.bytes()));
  auto& header = *reinterpret_cast<BlockHeader*>(memory.data() + descriptor.offset);
  if (header.use.load(std::memory_order_acquire) != descriptor.use || header.holders == 0)
    throw damaged(rank, "a block was reused before it was given back");
  data = memory.data() + descriptor.offset + block_header_bytes;
  return std::make_shared<Slot>(found->second, header, peer.wire);
}

void ShmCommunicator::read_notes(int rank) {
  Peer& peer = *at(rank);
  while (!peer.hung_up) {
    Note note;
    switch (receive_note(peer.wire->socket(), note)) {
      case ReceiveOutcome::none:
        return;
      case ReceiveOutcome::gone:
        return hang_up(rank,
                       Error(ErrorCode::peer_lost,
                             fmt::format("{}: rank {} is gone: its process ended without a goodbye",
                                         where(), rank),
                             "see that rank's log"),
                       true);
      case ReceiveOutcome::damaged:
        return hang_up(rank, damaged(rank, "its socket said what no rank says"), true);
      case ReceiveOutcome::received:
        handle(rank, std::move(note));
    }
  }
}

void ShmCommunicator::handle(int rank, Note note) {
  Peer& peer = *at(rank);
  switch (note.kind) {
    case Note::Kind::segment: {
      if (note.fds.size() != 1 || peer.segments.count(note.number) != 0)
        return hang_up(rank, damaged(rank, "a segment came without memory, or twice"), true);
      try {
        peer.segments[note.number] = std::make_shared<Segment>(
            Segment{note.number, SharedMemory::open(std::move(note.fds[0]), note.bytes)});
      } catch (const Error& error) {
        peer.segments.erase(note.number);
        fail(error);
      }
      return;
    }
    case Note::Kind::retired:
      peer.segments.erase(note.number);
      return;
    case Note::Kind::warning:
      return end_as_told(note.number, note.text);
    case Note::Kind::goodbye:
      return hang_up(rank, left(rank), false);
    case Note::Kind::hello:
      return hang_up(rank, damaged(rank, "it says hello again"), true);
  }
}

void ShmCommunicator::hang_up(int rank, const Error& error, bool lost) {
  Peer& peer = *at(rank);
  if (lost) {
    peer.hung_up = true;
    return fail(error);
  }
  while (drain(rank)) {
  }
  peer.hung_up = true;
  Ends ends;
  {
    const std::lock_guard lock(peer.mutex);
    peer.left = error;
    ends = drop_backlog(peer, error);
  }
  ends.tell();
  inbox_.leave(rank, error);
}

Error ShmCommunicator::damaged(int rank, const std::string& what) const {
  return Error(ErrorCode::bad_message,
               fmt::format("{}: what rank {} shares is damaged: {}", where(), rank, what),
               "that rank writes where it must not; run it under a sanitizer");
}

}  // namespace troupe::transport

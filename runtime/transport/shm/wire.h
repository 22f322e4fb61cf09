#pragma once
// Inside the shared-memory transport: the socket between two ranks, which carries descriptors of
// memory, last words, and by its end the news of a death.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/error.h"
#include "runtime/transport/shm/memory.h"
#include "runtime/transport/shm/ring.h"
#include "runtime/transport/store.h"

namespace troupe::transport {

/// A message of the socket (SOCK_SEQPACKET: whole messages, in order).
struct Note {
  enum class Kind : std::uint8_t {
    hello =
        1,    ///< text: the token; number: the rank; fds: bell, and the pair's memory in an answer
    segment,  ///< number and bytes of a segment; fds: its memory
    retired,  ///< a segment that will not be used again
    warning,  ///< the sender's communicator ends; number: ErrorCode; text: message, '\n', remedy
    goodbye   ///< nothing follows
  };
  Kind kind = Kind::hello;
  std::uint32_t number = 0;
  std::uint64_t bytes = 0;
  std::string text;
  std::vector<Fd> fds;
};

enum class SendOutcome { sent, full, gone };
/// Never blocks.
SendOutcome send_note(int socket, const Note& note, std::vector<int> fds = {});

enum class ReceiveOutcome { received, none, gone, damaged };
/// Never blocks. `gone` is the end of the connection.
ReceiveOutcome receive_note(int socket, Note& note);

/// The way between this rank and one peer. Kept alive by received tensors as well, since they give
/// their blocks back through it.
class Wire {
 public:
  Wire(Fd socket, Fd peer_bell, std::shared_ptr<SharedMemory> memory, int side)
      : socket_(std::move(socket)),
        peer_bell_(std::move(peer_bell)),
        memory_(std::move(memory)),
        side_(side) {}

  int socket() const { return socket_.get(); }
  Ring& outgoing() { return pair().to[1 - side_]; }
  Ring& incoming() { return pair().to[side_]; }
  PairMemory::Side& mine() { return pair().sides[side_]; }
  /// The peer has something to read: wakes it if it sleeps.
  void ring_for_descriptor() { wake(pair().sides[1 - side_].sleeping); }
  /// The peer has room again: wakes it if it waits for that.
  void ring_for_room() { wake(pair().sides[1 - side_].wants_room); }

 private:
  PairMemory& pair() { return *reinterpret_cast<PairMemory*>(memory_->data()); }
  void wake(std::atomic<std::uint32_t>& flag);

  Fd socket_, peer_bell_;
  std::shared_ptr<SharedMemory> memory_;
  int side_;
};

/// Connects this rank with all others: an abstract socket each, whose name and password the store
/// hands out. Wires by rank, this rank's empty; or who is missing.
Result<std::vector<std::shared_ptr<Wire>>> connect_all(Store& store, int rank, int size,
                                                       const std::string& group,
                                                       std::chrono::milliseconds timeout,
                                                       int own_bell);

}  // namespace troupe::transport

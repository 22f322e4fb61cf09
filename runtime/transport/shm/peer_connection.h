#pragma once
// Inside the shared-memory transport: the connection of two ranks. Its socket carries file
// descriptors and the reasons of ends; the end of the socket shows that the peer's process ended.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/error.h"
#include "runtime/transport/shm/memory.h"
#include "runtime/transport/shm/ring.h"
#include "runtime/transport/transport.h"

namespace troupe::transport {

/// A message of the socket (SOCK_SEQPACKET: whole messages, in order).
struct Signal {
  enum class Kind : std::uint8_t {
    /// text: the token; number: the rank; fds: the bell, and in an answer the pair's memory
    hello = 1,
    segment,  ///< number and bytes of a segment; fds: its memory
    warning,  ///< the sender's communicator ends; number: ErrorCode; text: message, '\n', remedy
    closing,  ///< the sender sends nothing more
    lost,     ///< never sent: the connection has ended
  };
  Kind kind = Kind::hello;
  std::uint32_t number = 0;
  std::uint64_t bytes = 0;
  std::string text;
  std::vector<Fd> fds;
};

enum class SendOutcome { sent, full, gone };
/// Never blocks.
SendOutcome send_signal(int socket, const Signal& signal, std::vector<int> fds = {});

enum class ReceiveOutcome { received, none, gone, damaged, no_descriptor };
/// Never blocks. `gone`: the connection has ended. `no_descriptor`: this process has too many open
/// files to take those of the message.
ReceiveOutcome receive_signal(int socket, Signal& signal);

/// The socket and the shared memory between this rank and one peer.
class PeerConnection {
 public:
  PeerConnection(Fd socket, Fd peer_bell, std::shared_ptr<SharedMemory> memory, int side)
      : socket_(std::move(socket)),
        peer_bell_(std::move(peer_bell)),
        memory_(std::move(memory)),
        side_(side) {}

  int socket() const { return socket_.get(); }
  Ring& outgoing() { return pair().to[1 - side_]; }
  Ring& incoming() { return pair().to[side_]; }
  PairMemory::Side& mine() { return pair().sides[side_]; }
  /// The peer has a descriptor to read: wakes it if it sleeps.
  void ring_for_descriptor() { wake(pair().sides[1 - side_].sleeping); }
  /// The ring to this rank has room again: wakes the peer if it waits for that.
  void ring_for_room() { wake(pair().sides[1 - side_].wants_room); }

 private:
  PairMemory& pair() { return *reinterpret_cast<PairMemory*>(memory_->data()); }
  void wake(std::atomic<std::uint32_t>& flag);

  Fd socket_, peer_bell_;
  std::shared_ptr<SharedMemory> memory_;
  int side_;
};

/// Connects this rank with all others by abstract Unix sockets, whose names and secrets are in the
/// store. Returns the connections by rank, null for this rank, or an error that names the missing
/// rank.
Result<std::vector<std::shared_ptr<PeerConnection>>> connect_peers(const TransportGroup& group,
                                                                   int own_bell);

}  // namespace troupe::transport

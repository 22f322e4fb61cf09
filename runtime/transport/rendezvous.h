#pragma once
// Inside the transports: how the ranks of a group connect to each other.

#include <chrono>
#include <cstddef>
#include <string>

#include "runtime/error.h"
#include "runtime/fd.h"
#include "runtime/transport/transport.h"

namespace troupe::transport {

/// 128 random bits as hexadecimal digits: for names and secrets that cannot be guessed.
std::string random_token();
constexpr std::size_t token_length = 32;

/// Every rank listens, publishes its address in the store, connects to the lower ranks and accepts
/// the higher ones. Other programs may connect too: a connection that does not send the group's
/// secret is closed, and does not delay the others. Each transport derives a class from this one
/// for its sockets and handshake.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  /// Returns when all ranks are connected, or an error that names the missing rank.
  Status run();

 protected:
  /// `socket_remedy`: what to do if the system gives no socket.
  Rendezvous(const TransportGroup& group, std::string transport, std::string socket_remedy);

  /// Makes the socket that listens; returns the address that other ranks connect to.
  virtual Result<std::string> listen(Fd& listener) = 0;
  virtual Status connect(int peer, const std::string& address) = 0;
  /// A client has connected and sent bytes. Keeps the connection if the client is a missing rank.
  virtual void accept(Fd client) = 0;
  virtual bool is_connected(int peer) const = 0;

  const TransportGroup& group() const { return group_; }
  std::chrono::milliseconds time_left() const;
  bool wait_for(const Fd& socket, short event) const;  ///< of poll(2); false: not in time
  Error missing(int peer, const std::string& detail) const;
  Error no_socket(const char* what) const;  ///< with errno

 private:
  std::string key(int rank) const;
  Status connect_to_lower_ranks();
  Status accept_higher_ranks(const Fd& listener);
  int missing_rank() const;  ///< -1: none

  const TransportGroup group_;
  const std::string transport_, socket_remedy_;
  const std::chrono::steady_clock::time_point deadline_;
};

}  // namespace troupe::transport

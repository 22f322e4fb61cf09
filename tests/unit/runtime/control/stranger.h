#pragma once
// Somebody who speaks ZeroMQ, or only TCP, and says what no Member would.

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <zmq.hpp>

#include "runtime/control/detail/wire.h"
#include "runtime/control/endpoint.h"
#include "runtime/control/job_key.h"

namespace troupe::control_test {

class Stranger {
 public:
  explicit Stranger(const std::string& endpoint) { connect(endpoint); }

  /// With the server's public half and a pair of its own.
  Stranger(const std::string& endpoint, const std::string& server, const JobKey& own) {
    socket_.set(zmq::sockopt::curve_serverkey, server);
    socket_.set(zmq::sockopt::curve_publickey, own.public_key);
    socket_.set(zmq::sockopt::curve_secretkey, own.secret_key);
    connect(endpoint);
  }

  void say(const std::string& frame) { socket_.send(zmq::buffer(frame), zmq::send_flags::none); }
  void say(const wire::Envelope& envelope) { say(control::encode(envelope)); }

  /// The next frame within the time; nothing if none comes.
  std::optional<std::string> hear(std::chrono::milliseconds time) {
    zmq::message_t frame;
    socket_.set(zmq::sockopt::rcvtimeo, static_cast<int>(time.count()));
    if (!socket_.recv(frame)) return std::nullopt;
    return frame.to_string();
  }

  /// The next envelope with a body that `wanted` likes.
  template <class Wanted>
  std::optional<wire::Envelope> hear_of(Wanted wanted) {
    while (const auto frame = hear(std::chrono::seconds(60)))
      if (auto envelope = control::decode(*frame); envelope && wanted(*envelope)) return envelope;
    return std::nullopt;
  }

 private:
  void connect(const std::string& endpoint) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.connect(endpoint);
  }

  zmq::context_t context_;
  zmq::socket_t socket_{context_, zmq::socket_type::dealer};
};

/// A TCP connection; -1 if there is none.
inline int connect_raw(const std::string& endpoint) {
  const auto at = parse_endpoint(endpoint).value();
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(at.port));
  inet_pton(AF_INET, at.host.c_str(), &address.sin_addr);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  close(fd);
  return -1;
}

inline wire::Envelope join_envelope(const std::string& run, std::uint32_t rank_plus_one,
                                    std::uint32_t size, std::uint64_t session) {
  wire::Envelope envelope;
  envelope.set_version(control::wire_version);
  envelope.set_run(control::run_tag(run));
  envelope.set_session(session);
  envelope.set_sequence(1);
  auto& join = *envelope.mutable_join();
  join.set_run(run);
  join.set_rank(rank_plus_one);
  join.set_size(size);
  join.set_host("stranger");
  join.set_address("127.0.0.1");
  join.set_port(1);
  return envelope;
}

}  // namespace troupe::control_test

#include "runtime/control/endpoint.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <zmq.hpp>

#include "runtime/fd.h"
#include "runtime/numeric_address.h"

namespace troupe {
namespace {

TEST(Endpoint, IsReadAsItWasWritten) {
  for (const char* host : {"127.0.0.1", "fd00::7", "node-3.cluster"}) {
    const auto parsed = parse_endpoint(tcp_endpoint(host, 29400));
    ASSERT_TRUE(parsed) << host;
    EXPECT_EQ(parsed->host, host);
    EXPECT_EQ(parsed->port, 29400);
  }
  EXPECT_EQ(tcp_endpoint("fd00::7", 1), "tcp://[fd00::7]:1");
}

TEST(Endpoint, IsNothingElse) {
  for (const char* text : {"", "tcp://", "node:1", "udp://node:1", "tcp://node", "tcp://:1",
                           "tcp://node:0", "tcp://node:65536", "tcp://node:1x", "tcp://node:-1"})
    EXPECT_FALSE(parse_endpoint(text)) << text;
}

TEST(Loopback, IsTheMachineThatAsks) {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "::1", "localhost", "localhost.localdomain"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"", "10.0.0.7", "fd00::1", "12.7.0.1", "localhosts", "node"})
    EXPECT_FALSE(is_loopback(host)) << host;
}

TEST(NumericAddress, AsksNoNameServer) {
  for (const char* host : {"127.0.0.1", "::1", "fe80::1%lo"})
    EXPECT_NE(numeric_address(host, "29400"), nullptr) << host;
  EXPECT_EQ(numeric_address("localhost", "29400"), nullptr);
  EXPECT_EQ(numeric_address("127.0.0.1", "http"), nullptr);
}

/// A port of the loopback whose callers wait for `answer`, or for ever.
class Greeter {
 public:
  explicit Greeter(const std::string& answer) {
    const Addresses address = numeric_address("127.0.0.1", "0");
    sockaddr_in bound{};
    socklen_t length = sizeof bound;
    if (::bind(socket_.get(), address->ai_addr, address->ai_addrlen) != 0 ||
        ::listen(socket_.get(), 1) != 0 ||
        ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0)
      throw std::runtime_error("no port to listen at");
    port_ = ntohs(bound.sin_port);
    if (!answer.empty())
      thread_ = std::jthread([this, answer] {
        const Fd caller(::accept(socket_.get(), nullptr, nullptr));
        ::send(caller.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
      });
  }
  ~Greeter() { ::shutdown(socket_.get(), SHUT_RDWR); }  // ends accept
  HostAndPort place() const { return {"127.0.0.1", port_}; }

 private:
  Fd socket_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  int port_ = 0;
  std::jthread thread_;
};

TEST(Listener, IsZeromqWhereItGreetsLikeIt) {
  zmq::context_t context;
  zmq::socket_t server(context, zmq::socket_type::router);
  server.bind("tcp://127.0.0.1:*");
  EXPECT_EQ(who_listens(*parse_endpoint(server.get(zmq::sockopt::last_endpoint)), {}),
            Listener::zeromq);
}

TEST(Listener, IsAnotherWhereItGreetsOtherwise) {
  EXPECT_EQ(who_listens(Greeter("SSH-2.0-OpenSSH\r\n").place(), {}), Listener::other);
}

TEST(Listener, IsNobodyWhereNoConnectionIsTaken) {
  const HostAndPort place = Greeter("").place();
  EXPECT_EQ(who_listens(place, {}), Listener::nobody);
}

TEST(Listener, IsNotWaitedForBySomebodyWhoStops) {
  const Greeter silent("");
  std::stop_source stop;
  stop.request_stop();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(who_listens(silent.place(), stop.get_token()), Listener::other);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
}

}  // namespace
}  // namespace troupe

#include "runtime/control/endpoint.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace troupe

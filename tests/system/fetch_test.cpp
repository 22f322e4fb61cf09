// The command stopped while it downloads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "tests/http_server.h"
#include "tests/system/background.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(FetchCommand, KeepsWhatHasArrivedWhenItIsStopped) {
  std::string folder = (fs::temp_directory_path() / "troupe_fetch_XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const test::HttpServer server([](const test::HttpConnection& client) {
    client.header("200 OK", "Content-Length: 9912422\r\n");
    client.send(std::string(100'000, 'x'));
    client.hold();
  });
  const fs::path part = fs::path(folder) / "train-images-idx3-ubyte.gz.part";
  Background process({"/usr/bin/env", "no_proxy=127.0.0.1", TROUPE_BINARY, "fetch", "mnist",
                      "--url", server.url(), "-o", folder, "--timeout", "3600"});
  std::error_code none_yet;
  EXPECT_TRUE(
      comes_true([&] { return fs::file_size(part, none_yet) == 100'000 || !process.runs(); }));
  process.signal(SIGINT);
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.exit_code, 75);
  EXPECT_THAT(outcome.error, HasSubstr("To resume: " TROUPE_BINARY " fetch mnist"));
  EXPECT_EQ(fs::file_size(part), 100'000u);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace troupe

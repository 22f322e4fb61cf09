// Downloads from a server that keeps to HTTP, and from one that does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "apps/fetch/fetch_file.h"
#include "apps/fetch/part_file.h"
#include "apps/fetch/transfer_display.h"
#include "tests/http_server.h"
#include "tests/unit/apps/ran.h"
#include "tests/unit/runtime/file/support.h"

namespace troupe {
namespace {

using test::expect_error;
using test::HttpConnection;
using test::HttpServer;
using test::read_text;
using test::write_text;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using How = Fetched::How;

class Fetch : public testing::Test {
 protected:
  Fetch() {
    ::setenv("no_proxy", "127.0.0.1", 1);
    for (int i = 0; i < 10'000; ++i) content_ += static_cast<char>(i * i / 7);
    write_text(folder_ / "expected", content_);
    source_ = {"set", {}, {{"file.gz", content_.size(), file_md5(folder_ / "expected")}}};
  }
  Fetched fetch_from(const std::vector<std::string>& mirrors, bool force = false) {
    source_.mirrors = mirrors;
    return fetch_file(source_, source_.files.front(), folder_.path(), force, options_);
  }
  Fetched fetch_from(const HttpServer& server) { return fetch_from({server.url()}); }
  /// The file is there, and nothing else.
  void expect_content() const {
    EXPECT_EQ(read_text(target()), content_);
    EXPECT_FALSE(std::filesystem::exists(part()));
  }
  void expect_refused(const HttpServer& server, const std::vector<std::string>& parts) {
    expect_error(ErrorCode::io, parts, [&] { fetch_from(server); });
    EXPECT_FALSE(std::filesystem::exists(target()));
  }
  std::filesystem::path target() const { return folder_ / "file.gz"; }
  std::filesystem::path part() const { return folder_ / "file.gz.part"; }
  HttpServer::Answer whole() const {
    return [this](const HttpConnection& client) { client.content(content_); };
  }

  test::TemporaryFolder folder_;
  std::string content_;
  FetchSource source_;
  TransferOptions options_;
};

TEST(FileMd5, IsThatOfTheStandard) {
  const test::TemporaryFolder folder;
  write_text(folder / "abc", "abc");  // RFC 1321, A.5
  EXPECT_EQ(file_md5(folder / "abc"), "900150983cd24fb0d6963f7d28e17f72");
}

TEST_F(Fetch, DownloadsAFileUnderItsName) {
  const HttpServer server(whole());
  const Fetched fetched = fetch_from(server);
  EXPECT_EQ(fetched.how, How::downloaded);
  EXPECT_EQ(fetched.from, server.url() + "file.gz");
  expect_content();
  EXPECT_THAT(server.requests(), ElementsAre(Not(HasSubstr("Range:"))));
}

TEST_F(Fetch, KeepsACorrectFileWithoutARequest) {
  write_text(target(), content_);
  EXPECT_EQ(fetch_from(std::vector<std::string>{}).how, How::already_there);
}

TEST_F(Fetch, ReplacesAnotherFileOnlyIfForced) {
  const HttpServer server(whole());
  write_text(target(), "mine");
  expect_error(ErrorCode::bad_file, {"has 4 bytes instead of 10000", "--force"},
               [&] { fetch_from(server); });
  write_text(target(), std::string(content_.size(), 'x'));
  expect_error(ErrorCode::bad_file, {"has the MD5", "--force"}, [&] { fetch_from(server); });
  fetch_from({server.url()}, true);
  expect_content();
}

TEST_F(Fetch, ResumesWhatIsThere) {
  write_text(part(), content_.substr(0, 4000));
  const HttpServer server(whole());
  fetch_from(server);
  expect_content();
  EXPECT_THAT(server.requests(), ElementsAre(HasSubstr("Range: bytes=4000-\r\n")));
}

TEST_F(Fetch, ResumesAfterEachBrokenConnection) {
  const HttpServer server([&](const HttpConnection& client) { client.content(content_, 3000); });
  fetch_from(server);
  expect_content();
  EXPECT_EQ(server.requests().size(), 4u);
}

TEST_F(Fetch, CompletesAWholePartWithoutARequest) {
  write_text(part(), content_);
  fetch_from(std::vector<std::string>{"http://127.0.0.1:9/"});
  expect_content();
}

TEST_F(Fetch, BeginsAnewWhereRangesAreIgnored) {
  write_text(part(), "other bytes");
  const HttpServer server([&](const HttpConnection& client) {
    client.header("200 OK", "Content-Length: 10000\r\n");
    client.send(content_);
  });
  fetch_from(server);
  expect_content();
}

TEST_F(Fetch, BeginsAnewAfterAnotherRangeThanTheRequested) {
  for (const char* range : {"bytes 0-9999/10000", "bytes 4000-9999/12345", "", "bytes",
                            "bytes 99999999999999999999999-1/2", "bytes 4000-"}) {
    std::filesystem::remove(target());
    write_text(part(), content_.substr(0, 4000));
    const HttpServer server([&](const HttpConnection& client) {
      if (client.range_begin() == 0) return client.content(content_);
      client.header("206 Partial Content", std::string("Content-Range: ") + range + "\r\n");
      client.send(content_);
    });
    fetch_from(server);
    expect_content();
  }
}

TEST_F(Fetch, BeginsAnewWhereTheServerHasNoSuchRange) {
  write_text(part(), content_.substr(0, 4000));
  const HttpServer server([&](const HttpConnection& client) {
    if (client.range_begin() == 0) return client.content(content_);
    client.header("416 Range Not Satisfiable", "Content-Length: 0\r\n");
  });
  fetch_from(server);
  expect_content();
}

TEST_F(Fetch, BeginsAnewWhereThePartIsOfOtherBytes) {
  for (const std::size_t size : {4000, 10'000, 20'000}) {
    std::filesystem::remove(target());
    write_text(part(), std::string(size, 'x'));
    const HttpServer server(whole());
    fetch_from(server);
    expect_content();
  }
}

TEST_F(Fetch, RefusesOtherBytes) {
  const HttpServer server(
      [&](const HttpConnection& client) { client.content(std::string(content_.size(), 'x')); });
  expect_refused(server, {"the file has the MD5", "give another server by --url"});
  EXPECT_FALSE(std::filesystem::exists(part()));
}

TEST_F(Fetch, RefusesAnnouncedLengthsThatAreWrong) {
  for (const char* length : {"9999", "10001", "0", "1099511627776"}) {
    write_text(part(), content_.substr(0, 10));
    const HttpServer server([&](const HttpConnection& client) {
      client.header("200 OK", std::string("Content-Length: ") + length + "\r\n");
      client.send(content_);
    });
    expect_refused(server, {"10000"});
    EXPECT_EQ(read_text(part()), content_.substr(0, 10)) << "another server may resume it";
  }
}

TEST_F(Fetch, CutsOffAnEndlessAnswer) {
  const HttpServer server([&](const HttpConnection& client) {
    client.header("200 OK");
    while (client.send(content_)) {
    }
  });
  expect_refused(server, {"sends more than 10000 bytes"});
  EXPECT_LE(read_text(part()).size(), content_.size());
}

TEST_F(Fetch, CutsOffAnEndlessHeader) {
  const HttpServer server([&](const HttpConnection& client) {
    client.send("HTTP/1.1 200 OK\r\n");
    while (client.send("X-Filler: " + std::string(1000, 'x') + "\r\n")) {
    }
  });
  expect_refused(server, {"headers"});
}

TEST_F(Fetch, RefusesWhatIsNoHttp) {
  const HttpServer server([](const HttpConnection& client) { client.send("SSH-2.0-x\r\n\r\n"); });
  expect_refused(server, {server.url()});
}

TEST_F(Fetch, RefusesRedirectionsToFiles) {
  const HttpServer server([&](const HttpConnection& client) {
    client.header("302 Found", "Location: file://" + (folder_ / "expected").string() + "\r\n");
  });
  expect_refused(server, {"file"});
}

TEST_F(Fetch, FollowsRedirectionsButNotInCircles) {
  const HttpServer other(whole());
  const HttpServer server([&](const HttpConnection& client) {
    client.header("302 Found", "Location: " + other.url() + "x\r\nContent-Length: 0\r\n");
  });
  fetch_from(server);
  expect_content();
  std::filesystem::remove(target());
  const HttpServer circle([&](const HttpConnection& client) {
    client.header("302 Found", "Location: /again\r\nContent-Length: 0\r\n");
  });
  expect_refused(circle, {"redirects"});
}

TEST_F(Fetch, GivesUpOnAServerThatNeverAnswers) {
  options_.timeout = std::chrono::seconds(1);
  const HttpServer server([](const HttpConnection& client) { client.hold(); });
  expect_refused(server, {server.url()});
}

TEST_F(Fetch, TakesTheNextMirrorAndWhatTheFirstHasSent) {
  const HttpServer missing([](const HttpConnection& client) { client.header("404 Not Found"); });
  const HttpServer busy(
      [](const HttpConnection& client) { client.header("503 Service Unavailable"); });
  const HttpServer breaking([&](const HttpConnection& client) {
    if (client.number == 0) client.content(content_, 5000);
  });
  const HttpServer good(whole());
  const Fetched fetched = fetch_from({missing.url(), breaking.url(), busy.url(), good.url()});
  EXPECT_EQ(fetched.from, good.url() + "file.gz");
  expect_content();
  EXPECT_THAT(good.requests(), ElementsAre(HasSubstr("Range: bytes=5000-\r\n")));
}

TEST_F(Fetch, NamesEachMirrorThatFailed) {
  const HttpServer missing([](const HttpConnection& client) { client.header("404 Not Found"); });
  const HttpServer busy(
      [](const HttpConnection& client) { client.header("503 Service Unavailable"); });
  expect_error(ErrorCode::io, {missing.url(), "404", busy.url(), "503", "try again later"}, [&] {
    fetch_from({missing.url(), busy.url()});
  });
}

TEST_F(Fetch, SaysWhereToRunItWithoutANetwork) {
  std::string url;
  {
    const HttpServer ended(whole());
    url = ended.url();
  }
  expect_error(ErrorCode::io, {url, "fetch set on a host with network access", target().string()},
               [&] { fetch_from(std::vector{url}); });
  EXPECT_FALSE(std::filesystem::exists(part()));
}

TEST_F(Fetch, ObeysTheProxyOfTheEnvironment) {
  const HttpServer proxy(whole());
  ::setenv("http_proxy", proxy.url().c_str(), 1);
  fetch_from(std::vector<std::string>{"http://example.invalid/data/"});
  ::unsetenv("http_proxy");
  expect_content();
  EXPECT_THAT(proxy.requests(),
              ElementsAre(HasSubstr("GET http://example.invalid/data/file.gz HTTP")));
}

TEST_F(Fetch, KeepsThePartWhenItIsStopped) {
  std::stop_source stop;
  options_.stop = stop.get_token();
  options_.progress = [&](std::uint64_t have) {
    if (have == 5000) stop.request_stop();
  };
  const HttpServer server([&](const HttpConnection& client) {
    client.content(content_, 5000);
    client.hold();
  });
  EXPECT_EQ(fetch_from(server).how, How::stopped);
  EXPECT_EQ(read_text(part()), content_.substr(0, 5000));
}

TEST_F(Fetch, LeavesAFileToTheProcessThatWritesIt) {
  const HttpServer server(whole());
  {
    PartFile other(target());
    other.append(as_bytes("begun"));
    expect_refused(server, {"another process is writing", part().string()});
    EXPECT_EQ(read_text(part()), "begun");
  }
  fetch_from(server);
  expect_content();
}

TEST_F(Fetch, DoesNotWriteThroughLinks) {
  write_text(folder_ / "precious", "mine");
  std::filesystem::create_symlink(folder_ / "precious", part());
  const HttpServer server(whole());
  expect_refused(server, {part().string()});
  EXPECT_EQ(read_text(folder_ / "precious"), "mine");
}

TEST_F(Fetch, NamesAFileThatDoesNotFitOnTheDisk) {
  source_.files.front().bytes = std::uint64_t{1} << 60;
  const HttpServer server(whole());
  expect_refused(server, {"MB free", "file.gz needs 1152921504606.8 MB"});
  EXPECT_TRUE(server.requests().empty());
  EXPECT_FALSE(std::filesystem::exists(part())) << "its folder is removed if it is empty";
}

TEST(FetchSources, AreCompleteAndUnique) {
  for (const FetchSource& source : fetch_sources()) {
    EXPECT_EQ(find_fetch_source(source.name), &source);
    for (const std::string& mirror : source.mirrors) EXPECT_TRUE(mirror.ends_with('/')) << mirror;
    for (const FetchFile& file : source.files) {
      EXPECT_EQ(file.md5.size(), 32u) << file.name;
      EXPECT_GT(file.bytes, 0u) << file.name;
    }
  }
}

TEST(FetchVerb, RefusesUnknownNamesAndUrls) {
  const Ran unknown = run_troupe({"fetch", "cifar-10"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.error, HasSubstr("did you mean cifar10?"));
  EXPECT_EQ(run_troupe({"fetch"}).code, 2);
  const Ran file = run_troupe({"fetch", "mnist", "--url", "file:///etc"});
  EXPECT_EQ(file.code, 2);
  EXPECT_THAT(file.error, HasSubstr("http://"));
}

TEST_F(Fetch, ReportsAServerOfOtherBytesByItsExitCode) {
  const HttpServer server(whole());
  const Ran ran =
      run_troupe({"fetch", "mnist", "--url", server.url(), "-o", (folder_ / "to/mnist").string()});
  EXPECT_EQ(ran.code, 1);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "to")) << "it was new and has no files";
  EXPECT_THAT(ran.error, HasSubstr("announces 10000 bytes instead of 9912422"));
}

TEST(FetchVerb, IsWhatTrainingRecommendsForMissingData) {
  ::setenv("TROUPE_DATA", "/nonexistent", 1);
  const Ran ran = run_troupe(
      {"train", TROUPE_SOURCE_DIR "/recipes/cifar10_cnn.yaml", "-o", "/nonexistent/out"});
  ::unsetenv("TROUPE_DATA");
  EXPECT_NE(ran.code, 0);
  EXPECT_THAT(ran.error, HasSubstr("/nonexistent/cifar10"));
  EXPECT_THAT(ran.error, testing::ContainsRegex("run [a-z_]+ fetch cifar10"));
}

TEST(TransferDisplay, ShowsLinesNowAndThenWithoutATerminal) {
  using Clock = TransferDisplay::Clock;
  const test::TemporaryFolder folder;
  std::FILE* out = std::fopen((folder / "out").c_str(), "w");
  const Clock::time_point begin{};
  TransferDisplay display(out, {}, "file.gz", 10'000'000, begin);
  display.show(1'000'000, begin);
  display.show(1'500'000, begin + std::chrono::seconds(1));
  display.show(2'000'000, begin + std::chrono::seconds(5));
  display.finish();
  std::fclose(out);
  EXPECT_EQ(read_text(folder / "out"), "file.gz  20%  2.0 MB of 10.0 MB  200.0 kB/s  40s to go\n");
}

TEST(TransferDisplay, KeepsItsBarWithinTheTerminal) {
  using Clock = TransferDisplay::Clock;
  const test::TemporaryFolder folder;
  for (const int width : {0, 1, 10, 60, 200}) {
    std::FILE* out = std::fopen((folder / "out").c_str(), "w");
    TransferDisplay display(out, {.terminal = true, .width = width}, "file.gz", 100, {});
    display.show(100, Clock::time_point{});
    std::fclose(out);
    EXPECT_LE(read_text(folder / "out").size(),
              std::string("\r\x1b[2K").size() + static_cast<std::size_t>(width));
  }
}

}  // namespace
}  // namespace troupe

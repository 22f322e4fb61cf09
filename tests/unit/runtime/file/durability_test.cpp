// Whether the disk is really asked: the calls that reach the system, in their order.
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "runtime/file/checkpoint.h"
#include "runtime/file/file.h"
#include "support.h"

namespace {

std::mutex calls_mutex;
bool recording = false;
std::vector<std::string> calls;

void record(const std::string& call) {
  const std::lock_guard lock(calls_mutex);
  if (recording) calls.push_back(call);
}

std::string path_of(int descriptor) {
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = ::readlink(link.c_str(), path, sizeof path);
  return length < 0 ? "" : std::string(path, static_cast<std::size_t>(length));
}

}  // namespace

// In the place of the C library's functions of these names, in this program: they record a call
// after it was made.
extern "C" int fsync(int descriptor) {
  const auto result = static_cast<int>(::syscall(SYS_fsync, descriptor));
  if (result == 0) record("sync " + path_of(descriptor));
  return result;
}
extern "C" int rename(const char* from, const char* to) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
  if (result == 0) record("rename " + std::string(from) + " to " + to);
  return result;
}

namespace troupe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <class Work>
std::vector<std::string> calls_of(Work work) {
  calls.clear();
  recording = true;
  work();
  recording = false;
  return calls;
}

TEST(Durability, AFileIsSyncedBeforeItIsRenamedAndItsFolderAfterwards) {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder / "file";
  const auto made = calls_of([&] { write_file(file, as_bytes("text")).value(); });
  EXPECT_THAT(made, ElementsAre(testing::StartsWith("sync " + (folder / ".file.partial-").string()),
                                testing::EndsWith(" to " + file.string()),
                                "sync " + folder.path().string()));
}

TEST(Durability, ACheckpointIsSyncedFileByFileBeforeItGetsItsName) {
  const test::TemporaryFolder folder;
  Manifest manifest;
  manifest.step = 7;
  std::filesystem::path step;
  const auto made = calls_of([&] {
    step = write_checkpoint(folder.path(), manifest,
                            {{0, {{"a", test::normal_tensor({100}, 1)}}},
                             {1, {{"b", test::normal_tensor({100}, 2)}}}})
               .value();
  });
  const auto place = [&](const std::string& begin, const std::string& end) {
    return std::ranges::find_if(made, [&](const std::string& call) {
      return call.starts_with(begin) && call.ends_with(end);
    });
  };
  const auto named = place("rename ", " to " + step.string());
  ASSERT_NE(named, made.end()) << testing::PrintToString(made);
  const std::string staging = named->substr(7, named->find(" to ") - 7);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(step)) {
    const std::string name = entry.path().filename().string();
    EXPECT_LT(place("sync ", "/" + name), named) << name << " is named before it is on the disk";
    ++files;
  }
  EXPECT_EQ(files, 3) << "two shards and a manifest";
  EXPECT_LT(place("sync " + staging, staging), named) << "its entries are not on the disk";
  const auto last = place("sync " + folder.path().string(), folder.path().string());
  EXPECT_GT(last, named);
  EXPECT_NE(last, made.end()) << "its name is not on the disk";
}

}  // namespace
}  // namespace troupe

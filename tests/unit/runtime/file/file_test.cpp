#include "runtime/file/file.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "support.h"

namespace troupe {
namespace {

using test::expect_error;
using test::read_text;
using test::TemporaryFolder;
using test::write_text;

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  return names;
}

/// Refuses every call of one kind.
WriteHook refusing(WriteCall::Kind kind, int error_number) {
  return [=](const WriteCall& call) { return call.kind == kind ? error_number : 0; };
}

TEST(MappedFile, ShowsTheBytesOfAFile) {
  TemporaryFolder folder;
  write_text(folder / "a", "some bytes");
  const auto file = MappedFile::open(folder / "a");
  ASSERT_EQ(file->bytes().size(), 10u);
  EXPECT_EQ(std::memcmp(file->bytes().data(), "some bytes", 10), 0);
}

TEST(MappedFile, ShowsAnEmptyFileAsNoBytes) {
  TemporaryFolder folder;
  write_text(folder / "empty", "");
  EXPECT_TRUE(MappedFile::open(folder / "empty")->bytes().empty());
}

TEST(MappedFile, StaysReadableAfterTheFileIsRemoved) {
  TemporaryFolder folder;
  write_text(folder / "a", "x");
  const auto file = MappedFile::open(folder / "a");
  std::filesystem::remove(folder / "a");
  EXPECT_EQ(file->bytes()[0], std::byte{'x'});
}

TEST(MappedFile, NamesAMissingFileAndSaysWhatToCheck) {
  expect_error(ErrorCode::io, {"/nowhere/at all", "No such file", "spelling"},
               [] { MappedFile::open("/nowhere/at all"); });
}

TEST(MappedFile, RefusesFoldersAndPipesWithoutWaiting) {
  TemporaryFolder folder;
  expect_error(ErrorCode::io, {"a folder"}, [&] { MappedFile::open(folder.path()); });
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  expect_error(ErrorCode::io, {"device or pipe"}, [&] { MappedFile::open(folder / "pipe"); });
}

TEST(WriteFile, ReplacesAFileAndLeavesNothingElse) {
  TemporaryFolder folder;
  write_text(folder / "a", "old");
  ASSERT_TRUE(write_file(folder / "a", as_bytes("new")));
  EXPECT_EQ(read_text(folder / "a"), "new");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a"});
}

TEST(WriteFile, LeavesTheOldFileWhereverItIsRefused) {
  using Kind = WriteCall::Kind;
  for (Kind kind : {Kind::create, Kind::write, Kind::sync, Kind::rename}) {
    TemporaryFolder folder;
    write_text(folder / "a", "old");
    const Status status = write_file(folder / "a", as_bytes("new"), refusing(kind, ENOSPC));
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), ErrorCode::io);
    EXPECT_THAT(status.error().what(), testing::HasSubstr("No space left"));
    EXPECT_THAT(status.error().remedy(), testing::HasSubstr("free space"));
    EXPECT_EQ(read_text(folder / "a"), "old");
    EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a"});
  }
}

TEST(WriteFile, ReportsAFolderThatIsNotThere) {
  TemporaryFolder folder;
  const Status status = write_file(folder / "missing" / "a", as_bytes("x"));
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().what(), testing::HasSubstr("missing"));
}

TEST(WriteFile, ReportsADeviceThatIsFull) {
  // What the system itself says when it takes no more: a file that may not grow over 4 KiB.
  TemporaryFolder folder;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  const Status status = write_file(folder / "a", as_bytes(std::string(10000, 'x')));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().remedy(), testing::HasSubstr("ulimit -f"));
  EXPECT_TRUE(names_in(folder.path()).empty());
}

TEST(AtomicFolder, AppearsWholeUnderItsNameAndMakesTheFoldersAbove) {
  TemporaryFolder folder;
  const auto target = folder.path() / "deep" / "down" / "target";
  {
    auto made = AtomicFolder::create(target);
    ASSERT_TRUE(made);
    write_text(made.value().staging() / "a", "1");
    EXPECT_FALSE(std::filesystem::exists(target));
    EXPECT_TRUE(AtomicFolder::is_staging_name(made.value().staging().filename().string()));
    ASSERT_TRUE(made.value().publish());
  }
  EXPECT_EQ(read_text(target / "a"), "1");
  EXPECT_EQ(names_in(target.parent_path()), std::vector<std::string>{"target"});
}

TEST(AtomicFolder, ReplacesAFolderThatIsNotEmpty) {
  TemporaryFolder folder;
  std::filesystem::create_directory(folder / "target");
  write_text(folder / "target/old", "1");
  {
    auto made = AtomicFolder::create(folder / "target");
    ASSERT_TRUE(made);
    write_text(made.value().staging() / "new", "2");
    ASSERT_TRUE(made.value().publish());
  }
  EXPECT_EQ(names_in(folder / "target"), std::vector<std::string>{"new"});
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"target"});
}

TEST(AtomicFolder, LeavesNothingWhenItIsNotPublished) {
  TemporaryFolder folder;
  {
    auto made = AtomicFolder::create(folder / "target");
    ASSERT_TRUE(made);
    write_text(made.value().staging() / "a", "1");
  }
  EXPECT_TRUE(names_in(folder.path()).empty());
}

TEST(AtomicFolder, ReportsAFileThatIsInTheWay) {
  TemporaryFolder folder;
  write_text(folder / "file", "");
  const auto made = AtomicFolder::create(folder / "file" / "target");
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().what(), testing::HasSubstr("in the way"));
}

TEST(SystemError, SaysWhatHelpsAgainstReadOnlyAndForbiddenPlaces) {
  EXPECT_THAT(system_error("writing", "/p", EROFS).what(), testing::HasSubstr("read-only"));
  EXPECT_THAT(system_error("writing", "/p", EACCES).what(), testing::HasSubstr("permissions"));
}

TEST(SystemError, IsWhatAnUnwritableFolderGives) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  TemporaryFolder folder;
  ASSERT_EQ(::chmod(folder.path().c_str(), 0500), 0);
  const Status status = write_file(folder / "a", as_bytes("x"));
  ::chmod(folder.path().c_str(), 0700);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().remedy(), testing::HasSubstr("permissions"));
}

}  // namespace
}  // namespace troupe

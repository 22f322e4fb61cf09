#include "runtime/file/tar.h"

#include "runtime/file/file.h"
#include "support.h"
#include "tests/unit/runtime/file/tar_text.h"

namespace troupe {
namespace {

using test::end_of_tar;
using test::expect_error;
using test::gzip;
using test::tar_header;
using test::tar_member;

constexpr std::uint64_t most = 1 << 20;

/// "NAME=content" for each file.
std::vector<std::string> files_of(const std::string& archive) {
  std::vector<std::string> files;
  TarReader reader(as_bytes(archive), "some.tar", most);
  while (const auto member = reader.next()) {
    const auto content = reader.content();
    EXPECT_EQ(content.size(), member->bytes);
    files.push_back(member->name + "=" +
                    std::string(reinterpret_cast<const char*>(content.data()), content.size()));
  }
  return files;
}

void expect_refused(const std::string& archive, const std::vector<std::string>& parts) {
  expect_error(ErrorCode::bad_file, parts, [&] { files_of(archive); });
}

const std::string two_files = tar_member("folder/", "", '5') + tar_member("folder/one", "1") +
                              tar_member("folder/two", std::string(513, '2')) + end_of_tar;

TEST(TarReader, ReadsPlainAndPackedArchivesAlike) {
  for (const std::string& archive : {two_files, gzip(two_files)})
    EXPECT_THAT(files_of(archive),
                testing::ElementsAre("folder/one=1", "folder/two=" + std::string(513, '2')));
}

TEST(TarReader, PassesOverWhatIsNotRead) {
  TarReader reader(as_bytes(two_files), "some.tar", most);
  EXPECT_EQ(reader.next()->name, "folder/one");
  EXPECT_EQ(reader.next()->bytes, 513u);
  EXPECT_FALSE(reader.next());
  EXPECT_FALSE(reader.next());
}

TEST(TarReader, SkipsExtendedHeadersLinksAndFolders) {
  const std::string long_name(300, 'n');
  EXPECT_THAT(files_of(tar_member("x", "20 path=other/name\n", 'x') + tar_member("a", "1") +
                       tar_member("g", "12 mtime=1.5\n", 'g') + tar_member("b", "2") +
                       tar_member("././@LongLink", long_name + '\0', 'L') +
                       tar_member(long_name.substr(0, 100), "3") + tar_member("link", "", '2') +
                       tar_member("c", "4", '\0') + end_of_tar),
              testing::ElementsAre("a=1", "b=2", long_name.substr(0, 100) + "=3", "c=4"));
}

TEST(TarReader, JoinsThePrefixOfPosixNames) {
  std::string header = tar_header("name", 0, '0');
  header.replace(345, 6, "prefix");
  EXPECT_THAT(files_of(test::with_checksum(header) + end_of_tar),
              testing::ElementsAre("prefix/name="));
}

TEST(TarReader, RefusesArchivesCutOffAnywhere) {
  for (std::size_t size = 0; size < two_files.size() - 1024; size += 100)
    expect_refused(two_files.substr(0, size), {"some.tar"});
  const std::string packed = gzip(two_files);
  for (std::size_t size = 2; size < packed.size(); size += 3)
    expect_refused(packed.substr(0, size), {"some.tar"});
}

TEST(TarReader, RefusesDamagedHeaders) {
  for (std::size_t at = 0; at < 500; at += 7) {
    std::string archive = two_files;
    archive[at] = static_cast<char>(archive[at] + 1);
    expect_refused(archive, {"checksum"});
  }
}

TEST(TarReader, RefusesSizesThatCannotBe) {
  const auto with_size = [](const std::string& size) {
    std::string header = tar_header("file", 0, '0');
    header.replace(124, size.size(), size);
    return test::with_checksum(header) + end_of_tar;
  };
  expect_refused(with_size("-0000000001"), {"the size of 'file' is not a number"});
  expect_refused(with_size("00000000009"), {"is not a number"});
  expect_refused(with_size("           "), {"is not a number"});
  expect_refused(with_size("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe"), {"not a number"});
  expect_refused(with_size("77777777777"), {"8589934591 bytes, more than 1048576"});
  expect_refused(with_size("00003000000"), {"786432 bytes, more than the archive can hold"});
}

TEST(TarReader, RefusesAMemberLargerThanItsReaderPermits) {
  const std::string bomb = tar_member("zeros", std::string(most + 1, '\0')) + end_of_tar;
  expect_refused(gzip(bomb), {"'zeros' has 1048577 bytes, more than 1048576"});
}

TEST(TarReader, RefusesEndlessPadding) {
  expect_refused(gzip(end_of_tar + std::string(2 << 20, '\0')), {"a megabyte follows its end"});
}

TEST(TarReader, RefusesOtherFiles) {
  expect_refused("", {"too early"});
  for (const std::size_t more : {0, 100, 2000}) {
    const std::string page = "<html>" + std::string(more, 'x');
    expect_refused(page, {"not a tar archive", "it begins with '<html>"});
    expect_refused(gzip(page), {"not a tar archive", "it begins with '<html>"});
  }
}

TEST(TarReader, ShowsNamesWithoutTheirControlCharacters) {
  std::string header = tar_header("\x1b[2J\xff", 0, '0');
  header[124] = '-';
  expect_refused(test::with_checksum(header), {"'?[2J?'"});
}

}  // namespace
}  // namespace troupe

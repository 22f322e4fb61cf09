#include "runtime/file/zip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/file/file.h"
#include "tests/unit/runtime/file/support.h"
#include "tests/unit/runtime/file/zip_text.h"

namespace troupe {
namespace {

using test::expect_error;
using test::MadeMember;
using test::zip_number;
using test::zip_of;

constexpr std::uint64_t megabyte = 1 << 20;
const std::string words(5000, 'w');

ZipArchive parse(const std::string& text) { return ZipArchive::parse(as_bytes(text), "a.zip"); }

void expect_refused(const std::string& text, const std::vector<std::string>& parts) {
  expect_error(ErrorCode::bad_file, parts, [&] { parse(text); });
}
void expect_unreadable(const std::vector<MadeMember>& members,
                       const std::vector<std::string>& parts) {
  const std::string text = zip_of(members);
  expect_error(ErrorCode::bad_file, parts, [&] {
    const ZipArchive archive = parse(text);
    (void)archive.content(archive.members()[0], megabyte);
  });
}
std::string content(const std::string& text, const std::string& name) {
  const ZipArchive archive = parse(text);
  return std::string(archive.content(archive.at(name), megabyte).text());
}

TEST(Zip, HoldsStoredAndDeflatedMembers) {
  const std::string text = zip_of({{"f/a", "one"}, {"f/b", words, true}, {"f/", ""}});
  const ZipArchive archive = parse(text);
  ASSERT_EQ(archive.members().size(), 3u);
  EXPECT_EQ(archive.members()[1].size, words.size());
  EXPECT_EQ(archive.find("f/c"), nullptr);
  EXPECT_EQ(content(text, "f/a"), "one");
  EXPECT_EQ(content(text, "f/b"), words);
  EXPECT_EQ(content(text, "f/"), "");
}

TEST(Zip, GivesStoredMembersAsViews) {
  const std::string text = zip_of({{"a", "one"}, {"b", words, true}});
  const ZipArchive archive = parse(text);
  EXPECT_EQ(reinterpret_cast<const char*>(archive.stored(archive.at("a")).data()),
            text.data() + archive.at("a").begin);
  EXPECT_EQ(text.substr(archive.at("a").begin, 3), "one");
  expect_error(ErrorCode::bad_file, {"b in", "compressed"},
               [&] { (void)archive.stored(archive.at("b")); });
}

TEST(Zip, TakesSizesOfStreamedMembersFromTheDirectory) {
  const std::string text =
      zip_of({{.name = "a", .content = "one", .flags = 0x808},
              {.name = "b", .content = words, .deflated = true, .flags = 8, .wide = true}});
  EXPECT_EQ(content(text, "a"), "one");
  EXPECT_EQ(content(text, "b"), words);
}

TEST(Zip, HasNumbersOf64Bits) {
  const std::string text =
      zip_of({{.name = "a", .content = "one", .wide = true},
              {.name = "b", .content = words, .deflated = true, .wide = true}});
  EXPECT_EQ(content(text, "a"), "one");
  EXPECT_EQ(content(text, "b"), words);
  std::string moved = text;  // the place of the directory's end
  moved[moved.rfind("PK\6\7") + 8] ^= 1;
  expect_refused(moved, {"end of its directory"});
  std::string longer = text;  // the size of the directory
  longer[longer.rfind("PK\6\6") + 40] ^= 1;
  expect_refused(longer, {"directory"});
}

TEST(Zip, EndsWithAComment) {
  std::string text = zip_of({{"a", "one"}});
  text.replace(text.size() - 2, 2, zip_number(7, 2));
  EXPECT_EQ(content(text + "comment", "a"), "one");
  expect_refused(text + "commen", {"its end is missing"});
}

TEST(Zip, NamesMembersThatAreThere) {
  const std::string text = zip_of({{"a", "one"}, {"b", "two"}});
  expect_error(ErrorCode::bad_file, {"has no c", "a, b"}, [&] { content(text, "c"); });
}

TEST(Zip, HasNoChecksumsIfAllAreZero) {
  // As after torch.serialization.set_crc32_options(False).
  const std::string text = zip_of({{.name = "a", .content = "one", .crc = 0},
                                   {.name = "b", .content = words, .deflated = true, .crc = 0}});
  EXPECT_EQ(content(text, "a"), "one");
  EXPECT_EQ(content(text, "b"), words);
  expect_unreadable({{.name = "a", .content = "one", .crc = 0}, {"b", "two"}}, {"CRC"});
}

TEST(Zip, RefusesWrongChecksums) {
  expect_unreadable({{.name = "a", .content = "one", .crc = 1}}, {"a in 'a.zip'", "CRC"});
  expect_unreadable({{.name = "a", .content = words, .deflated = true, .crc = 1}}, {"CRC"});
}

TEST(Zip, RefusesMoreThanTheCallerAllows) {
  expect_unreadable({{"a", std::string(megabyte + 1, 'x')}}, {"1048577 bytes, more than 1048576"});
}

TEST(Zip, RefusesSizesThatThePackedBytesCannotGive) {
  for (const std::int64_t size : {std::int64_t{1} << 40, std::int64_t{1} << 62}) {
    const std::string text =
        zip_of({{.name = "a", .content = words, .deflated = true, .size = size}});
    const ZipArchive archive = parse(text);
    expect_error(ErrorCode::bad_file, {"states", "unpacked from"},
                 [&] { (void)archive.content(archive.at("a"), UINT64_MAX); });
  }
  for (const std::int64_t size : {0, 4999, 5001, 20'000})
    expect_unreadable({{.name = "a", .content = words, .deflated = true, .size = size}},
                      {"do not give"});
  expect_unreadable({{.name = "a", .content = words, .size = 5001}}, {"is stored in 5000 bytes"});
}

TEST(Zip, RefusesNamesThatLeadOutOfAFolder) {
  for (const std::string name : {"../a", "a/../../b", "/a", "a\\b", "C:a", "..", "a/.."})
    expect_refused(zip_of({{name, "one"}}), {"leads out of a folder"});
  expect_refused(zip_of({{std::string("a\0b", 3), "one"}}), {"leads out of a folder"});
  expect_refused(zip_of({{"", "one"}}), {"leads out of a folder"});
  EXPECT_EQ(content(zip_of({{"a..b/...", "one"}}), "a..b/..."), "one");
}

TEST(Zip, RefusesNamesThatAreThereTwice) {
  expect_refused(zip_of({{"a", "one"}, {"b", "two"}, {"a", "six"}}), {"member a is there twice"});
}

TEST(Zip, RefusesMembersThatOverlap) {
  // The content of the first member is a second one.
  const std::string inner = zip_of({{"b", "two"}}).substr(0, 30 + 1 + 3);
  std::string text = zip_of({{"a", inner}, {"b", "two"}});
  text.replace(text.rfind("PK\1\2") + 42, 4, zip_number(30 + 1, 4));
  expect_refused(text, {"member b overlaps a"});
}

TEST(Zip, RefusesHeadersThatContradictTheDirectory) {
  const std::string text = zip_of({{"a", "one"}});
  expect_refused(zip_of({{.name = "a", .content = "one", .own_name = "b"}}), {"contradicts"});
  for (const std::size_t at : {6u, 8u, 14u, 18u, 22u}) {  // flags, method, checksum and sizes
    std::string changed = text;
    changed[at] ^= 1;
    expect_refused(changed, {"contradicts"});
  }
}

TEST(Zip, RefusesEncryptionOtherMethodsAndOtherDisks) {
  for (const unsigned flags : {1U, 0x40U, 0x2000U})
    expect_refused(
        zip_of({{.name = "a", .content = "one", .flags = static_cast<std::uint16_t>(flags)}}),
        {"a is encrypted"});
  expect_unreadable({{.name = "a", .content = "one", .method = 12}}, {"by method 12"});
  std::string text = zip_of({{"a", "one"}});
  text[text.rfind("PK\5\6") + 4] = 1;
  expect_refused(text, {"several disks"});
}

TEST(Zip, RefusesBytesBeforeItsBegin) {
  expect_refused("more" + zip_of({{"a", "one"}}), {"bytes are missing or were added"});
}

TEST(Zip, RefusesFilesCutOffAnywhere) {
  const std::string text = zip_of({{.name = "a", .content = "one", .wide = true}, {"b", words}});
  for (std::size_t size = 0; size < text.size(); ++size)
    expect_refused(text.substr(0, size), {"a.zip"});
}

TEST(Zip, GivesTheContentOrAnErrorForAnyWrongByte) {
  const std::string text = zip_of({{.name = "a", .content = "one", .flags = 8, .wide = true},
                                   {.name = "b", .content = words, .deflated = true}});
  int survivors = 0;
  for (std::size_t i = 0; i < text.size(); ++i)
    for (const char wrong : {'\0', '\xff', static_cast<char>(text[i] ^ 1)}) {
      std::string changed = text;
      changed[i] = wrong;
      try {
        const ZipArchive archive = parse(changed);
        for (const ZipMember& member : archive.members())
          EXPECT_EQ(archive.content(member, megabyte).text(), member.size == 3 ? "one" : words)
              << i;
        ++survivors;
      } catch (const Error&) {
      }
    }
  EXPECT_GT(survivors, 0);  // such as a changed time
}

}  // namespace
}  // namespace troupe

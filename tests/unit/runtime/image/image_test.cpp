#include "runtime/image/image.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/file/file.h"
#include "tests/unit/runtime/image/golden_images.h"

namespace troupe {
namespace {

Image decode(const std::string& bytes) { return decode_image(as_bytes(bytes), "x.jpg"); }

std::string file(const std::string& name) { return test::read_text(test::golden_images / name); }

void expect_refused(const std::string& bytes, const std::vector<std::string>& parts = {}) {
  std::vector<std::string> all{"x.jpg"};
  all.insert(all.end(), parts.begin(), parts.end());
  test::expect_error(ErrorCode::bad_file, all, [&] { decode(bytes); });
}

std::vector<std::string> all_files() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(test::golden_images))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

class DecodeImage : public testing::TestWithParam<std::string> {};

TEST_P(DecodeImage, GivesTheBytesOfPillow) {
  const Tensor expected = test::expected_images().read("decoded/" + GetParam());
  const Image image = decode(file(GetParam()));
  EXPECT_EQ(image.size, (ImageSize{expected.dim(1), expected.dim(0)}));
  EXPECT_EQ((std::vector<int>{image.pixels.begin(), image.pixels.end()}),
            test::values_of(expected));
}

TEST_P(DecodeImage, GivesTheSameRowsOfAPart) {
  const std::string bytes = file(GetParam());
  const Image whole = decode(bytes);
  for (std::int64_t top = 0; top < whole.size.height; ++top)
    for (std::int64_t height = 1; top + height <= whole.size.height; ++height) {
      ImageSize size;
      const Image part = decode_image(as_bytes(bytes), "x.jpg", [&](ImageSize all) {
        size = all;
        return ImageBox{3, top, 5, height};
      });
      EXPECT_EQ(size, whole.size);
      const auto row = 3 * whole.size.width;
      ASSERT_TRUE(std::equal(part.pixels.begin() + top * row,
                             part.pixels.begin() + (top + height) * row,
                             whole.pixels.begin() + top * row))
          << top << " " << height;
    }
}

TEST(DecodeImageErrors, RefusesTruncatedFilesAlsoWhereThePartIsComplete) {
  for (const char* name : {"photo.jpg", "progressive.jpeg"}) {
    const std::string whole = file(name);
    const auto top = [](ImageSize size) { return ImageBox{0, 0, size.width, 2}; };
    EXPECT_NO_THROW(decode_image(as_bytes(whole), name, top));
    for (const std::size_t missing : {1, 2, 30, 200}) {
      const std::string part = whole.substr(0, whole.size() - missing);
      test::expect_error(ErrorCode::bad_file, {name, "cannot be decoded"},
                         [&] { decode_image(as_bytes(part), name, top); });
    }
  }
}

// From any length on, a shorter file is refused; none gives an image with missing parts.
TEST_P(DecodeImage, RefusesTruncatedFiles) {
  const std::string whole = file(GetParam());
  for (std::size_t size = 0; size + (GetParam().ends_with("png") ? 16 : 0) < whole.size();
       size += size < 700 ? 1 : 7) {
    SCOPED_TRACE(size);
    expect_refused(whole.substr(0, size));
  }
}

TEST_P(DecodeImage, DecodesOrRefusesDamagedFiles) {
  const std::string whole = file(GetParam());
  for (std::size_t at = 0; at < whole.size(); at += at < 300 ? 1 : 7)
    for (const char change : {'\x01', '\x80', '\xff'}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ change);
      try {
        const Image image = decode_image(as_bytes(damaged), "x.jpg", 1 << 20);
        EXPECT_EQ(image.pixels.size(),
                  static_cast<std::size_t>(image.size.width * image.size.height * 3));
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::bad_file) << error.what();
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Files, DecodeImage, testing::ValuesIn(all_files()), [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace(name, '.', '_');
  return name;
});

TEST(DecodeImageErrors, RefusesOtherFiles) {
  expect_refused("", {"is empty"});
  expect_refused("GIF89a...", {"neither a JPEG nor a PNG"});
  expect_refused(std::string(100, '\0'), {"neither"});
  expect_refused("\xff\xd8\xff", {"cannot be decoded"});
  expect_refused("\x89PNG\r\n\x1a\n", {"cannot be decoded"});
}

// A header may state more pixels than any file of its size has: no memory is allocated for them.
TEST(DecodeImageErrors, RefusesMorePixelsThanTheLimit) {
  std::string jpeg = file("photo.jpg");
  const std::size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\xff\xdc\xff\xdc");  // 65,500 × 65,500
  expect_refused(jpeg, {"65500 × 65500", "178956970"});

  std::string png("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\x0f\x42\x40\0\x0f\x42\x40\x08\2\0\0\0", 29);
  png += std::string("\x28\xb3\xd9\x19\0\0\0\0IDAT", 12);
  expect_refused(png, {"x.jpg"});

  test::expect_error(ErrorCode::bad_file, {"37 × 26", "961"},
                     [] { decode_image(as_bytes(file("photo.png")), "x.png", 961); });
  EXPECT_NO_THROW(decode_image(as_bytes(file("photo.png")), "x.png", 962));
}

// A scan without any change takes ten bytes and as long as the image is large.
TEST(DecodeImageErrors, RefusesManyScans) {
  const std::string whole = file("progressive.jpeg");
  const std::size_t last = whole.rfind("\xff\xda");
  ASSERT_NE(last, std::string::npos);
  const std::string scan = whole.substr(last, whole.size() - 2 - last);
  std::string many = whole.substr(0, whole.size() - 2);
  for (int i = 0; i < 1000; ++i) many += scan;
  expect_refused(many + "\xff\xd9", {"500 scans"});
}

}  // namespace
}  // namespace troupe

#include "runtime/world/error_file.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace troupe {
namespace {

using testing::HasSubstr;

class ErrorFile : public testing::Test {
 protected:
  ErrorFile() {
    std::string name = testing::TempDir() + "error-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~ErrorFile() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

TEST_F(ErrorFile, KeepsWhatWasWritten) {
  const auto file = folder_ / "error.json";
  ASSERT_TRUE(write_error_file(file, {.message = "a \"b\"\n\xff",
                                      .details = "c",
                                      .time = 17,
                                      .is_consequence = true,
                                      .is_printed = true}));
  const auto reported = read_error_file(file).value();
  EXPECT_THAT(reported.message, HasSubstr("a \"b\"\n"));
  EXPECT_EQ(reported.details, "c");
  std::ifstream stream(file);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  EXPECT_THAT(text, HasSubstr(R"("py_callstack":"a \"b\"\n)")) << "which torchrun shows alone";
  EXPECT_EQ(reported.time, 17);
  EXPECT_TRUE(reported.is_consequence && reported.is_printed);
  EXPECT_FALSE(write_error_file(folder_ / "no" / "error.json", {}));
}

TEST_F(ErrorFile, SendsTheTerminalNoControlCharacters) {
  const auto file = folder_ / "error.json";
  std::ofstream(file)
      << R"({"message": "a\u001b[31m\u009b31m\u0080\u009f\u007fb\tc\n\u00a0\u00e9"})";
  EXPECT_EQ(read_error_file(file)->message, "a?[31m?31m???b\tc\n\u00a0\u00e9");
}

TEST_F(ErrorFile, ReadsThePlainFormAndRefusesDamage) {
  const auto file = folder_ / "error.json";
  EXPECT_FALSE(read_error_file(file));
  std::ofstream(file) << R"({"message": "plain"})";
  EXPECT_EQ(read_error_file(file)->message, "plain");
  std::ofstream(file, std::ios::trunc)
      << R"({"message": {"message": "a", "extraInfo": {"printed": "yes", "kind": 3}}})";
  EXPECT_FALSE(read_error_file(file)->is_printed);
  for (const char* text : {"{", "null", "[]", R"({"message": []})",
                           R"({"message": {"message": 1e})", R"({"message": {"extraInfo": 3}})"}) {
    std::ofstream(file, std::ios::trunc) << text;
    EXPECT_FALSE(read_error_file(file)) << text;
  }
  std::ofstream(file, std::ios::trunc) << R"({"message": ")" << std::string(2 << 20, 'x') << "\"}";
  EXPECT_FALSE(read_error_file(file));
}

}  // namespace
}  // namespace troupe

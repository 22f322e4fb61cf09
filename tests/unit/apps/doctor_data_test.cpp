// The doctor's look at the data set of an options file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/doctor/checks.h"
#include "apps/options/load_options.h"
#include "tests/unit/runtime/file/support.h"

namespace troupe {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

/// An IDX file of one-byte elements: http://yann.lecun.com/exdb/mnist/.
std::string idx(const std::vector<unsigned char>& sizes, std::size_t elements) {
  std::string bytes{'\0', '\0', '\x08', static_cast<char>(sizes.size())};
  for (const unsigned char size : sizes) bytes += std::string(3, '\0') + static_cast<char>(size);
  return bytes + std::string(elements, '\1');
}

class DoctorData : public ::testing::Test {
 protected:
  DoctorData() {
    for (const char* part : {"train", "t10k"}) {
      test::write_text(file(part, "images-idx3"), idx({20, 28, 28}, 20 * 784));
      test::write_text(file(part, "labels-idx1"), idx({20}, 20));
    }
  }
  std::filesystem::path file(const std::string& part, const std::string& content) const {
    return folder_.path() / (part + "-" + content + "-ubyte");
  }
  DataCheck check() const {
    return check_data(parse_options(
        "train: {batch_size: 4}\ndata: {path: " + folder_.path().string() + "}", "o.yaml"));
  }
  test::TemporaryFolder folder_;
};

TEST_F(DoctorData, CountsTheSamplesOfWholeFiles) {
  const DataCheck data = check();
  EXPECT_THAT(data.findings, IsEmpty());
  EXPECT_THAT(data.observation.seen, HasSubstr("20 training and 20 test samples"));
}

TEST_F(DoctorData, FindsAFileThatEndsTooEarly) {
  test::write_text(file("train", "images-idx3"), idx({20, 28, 28}, 20 * 784 - 1));
  const DataCheck data = check();
  ASSERT_EQ(data.findings.size(), 1u);
  EXPECT_EQ(data.findings[0].severity, Finding::Severity::error);
  EXPECT_THAT(data.findings[0].message, HasSubstr("train-images-idx3-ubyte"));
}

TEST_F(DoctorData, FindsAMissingFile) {
  std::filesystem::remove(file("t10k", "labels-idx1"));
  const DataCheck data = check();
  ASSERT_EQ(data.findings.size(), 1u);
  EXPECT_THAT(data.findings[0].message, HasSubstr("t10k-labels-idx1-ubyte"));
}

}  // namespace
}  // namespace troupe

#pragma once
// What the tests of files share: a folder of their own, tensors to write, and errors to look at.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "runtime/error.h"
#include "runtime/tensor/named_tensor.h"

namespace troupe::test {

/// A new folder that is removed at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "troupe-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

template <class T>
Tensor tensor_of(const Shape& shape, const std::vector<T>& values) {
  return Tensor::from<T>(shape, std::span<const T>(values));
}

/// Random bytes as elements of any type but bool.
inline Tensor random_tensor(const Shape& shape, DType dtype, unsigned seed) {
  Tensor tensor = Tensor::empty(shape, dtype, Device::cpu());
  std::mt19937 engine(seed);
  for (std::size_t i = 0; i < tensor.bytes(); ++i) tensor.raw()[i] = std::byte(engine() & 0xff);
  return tensor;
}

/// Weights as training makes them: small, normal.
inline Tensor normal_tensor(const Shape& shape, unsigned seed) {
  Tensor tensor = Tensor::empty(shape, DType::f32, Device::cpu());
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0f, 0.05f);
  for (float& value : tensor.elements<float>()) value = normal(engine);
  return tensor;
}

inline bool same(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         (a.bytes() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
}

inline void expect_same(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].name, b[i].name);
    EXPECT_TRUE(same(a[i].tensor, b[i].tensor)) << a[i].name;
  }
}

/// Runs `action`, which must throw an Error of `code` whose text has all of `parts` and a remedy.
template <class Action>
void expect_error(ErrorCode code, const std::vector<std::string>& parts, Action&& action) {
  try {
    action();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string& part : parts) EXPECT_THAT(error.what(), testing::HasSubstr(part));
    EXPECT_FALSE(error.remedy().empty()) << error.what();
  }
}

}  // namespace troupe::test

#include "ops/kernels.h"

#include <gtest/gtest.h>

#include <cstring>

#include "ops/reference/table.h"
#include "runtime/error.h"

namespace troupe {
namespace {

// A KernelTable is a name and function pointers: none may be null.
int gaps(const KernelTable& table) {
  constexpr std::size_t entries = (sizeof(KernelTable) - sizeof(std::string_view)) / sizeof(void*);
  void* pointers[entries];
  std::memcpy(pointers, reinterpret_cast<const char*>(&table) + sizeof(std::string_view),
              sizeof(pointers));
  int result = 0;
  for (const void* pointer : pointers) result += pointer == nullptr;
  return result;
}

TEST(KernelTable, HasNoGapInAnyBackend) {
  EXPECT_EQ(gaps(reference::table<float>()), 0);
  EXPECT_EQ(gaps(reference::table<double>()), 0);
  EXPECT_EQ(gaps(kernels({}, DType::f32)), 0);
  EXPECT_GT(gaps(KernelTable{}), 10);
}

TEST(KernelTable, DoublePrecisionRunsTheReference) {
  EXPECT_EQ(kernels({}, DType::f64).backend, "reference");
}

TEST(KernelTable, NamesTheCombinationThatItDoesNotHave) {
  try {
    kernels({}, DType::bf16);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(error.message().find("bf16 on cpu"), std::string::npos) << error.what();
  }
  EXPECT_THROW(kernels({Device::Kind::cuda, 0}, DType::f32), Error);
}

}  // namespace
}  // namespace troupe

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>

#include "ops/kernels.h"
#include "runtime/error.h"

namespace troupe {
namespace {

class KernelTables : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(OfTheCpu, KernelTables, testing::Values(DType::f32, DType::f64));

TEST_P(KernelTables, HaveNoGap) {
  // A function pointer may be looked at as bytes; so this walk needs no list to be kept up to date.
  constexpr std::size_t first = offsetof(KernelTable, convolution), each = sizeof(void (*)());
  static_assert((sizeof(KernelTable) - first) % each == 0);
  const KernelTable& table = kernels(Device{}, GetParam());
  const auto* bytes = reinterpret_cast<const std::byte*>(&table);
  for (std::size_t offset = first; offset < sizeof(KernelTable); offset += each) {
    const std::byte null[each] = {};
    EXPECT_NE(std::memcmp(bytes + offset, null, each), 0)
        << table.backend << ": entry " << (offset - first) / each << " is null";
  }
}

TEST_P(KernelTables, NameTheirBackend) {
  EXPECT_EQ(kernels(Device{}, GetParam()).backend, GetParam() == DType::f32 ? "cpu" : "reference");
}

TEST(KernelTablesErrors, NameTheTypeAndTheDevice) {
  try {
    kernels(Device{}, DType::bf16);
    FAIL() << "there are no bf16 kernels";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(error.message().find("bf16 on cpu"), std::string::npos) << error.message();
  }
  EXPECT_THROW(kernels(Device{.kind = Device::Kind::cuda}, DType::f32), Error);
}

}  // namespace
}  // namespace troupe

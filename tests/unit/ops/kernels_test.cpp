#include "ops/kernels.h"

#include <gtest/gtest.h>

#include "ops/reference/kernels.h"
#include "runtime/error.h"

namespace troupe {
namespace {

TEST(KernelTable, DoublePrecisionRunsTheReference) {
  EXPECT_EQ(kernels({}, DType::f64).relu, reference::relu);
}

TEST(KernelTable, NamesTheCombinationThatItDoesNotHave) {
  try {
    kernels({}, DType::bf16);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(error.message().find("bf16 on cpu"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace troupe

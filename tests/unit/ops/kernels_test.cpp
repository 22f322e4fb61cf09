#include "ops/kernels.h"

#include <gtest/gtest.h>

#include "ops/backend.h"
#include "ops/cpu/processor.h"
#include "ops/reference/kernels.h"
#include "runtime/error.h"

namespace troupe {
namespace {

TEST(KernelTable, DoublePrecisionRunsTheReferenceWhereNothingIsFaster) {
  EXPECT_EQ(kernels({}, DType::f64).relu, reference::relu);
  EXPECT_NE(kernels({}, DType::f64).convolution, reference::convolution);
}

TEST(Products, AreRefusedInATypeThatTheDeviceDoesNotMultiply) {
  EXPECT_NO_THROW(check_products({}));
  EXPECT_EQ(backend({}).multiplies(DType::bf16), cpu::has_bf16());
  try {
    check_products({.products = DType::f16});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(error.message().find("is 16-mixed, but the device cpu does not multiply in f16"),
              std::string::npos)
        << error.what();
    EXPECT_NE(error.remedy().find("32-true"), std::string::npos) << error.remedy();
  }
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

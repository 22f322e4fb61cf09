#include "runtime/setting_names.h"

#include <gtest/gtest.h>

namespace troupe {
namespace {

std::string name_of(std::string_view setting) {
  return setting == "batch_size" ? "train.batch_size" : "";
}

TEST(SettingNames, ReplaceBackQuotedSettingsInMessageAndRemedy) {
  const Error error(ErrorCode::bad_options, "`batch_size` is 0", "raise `batch_size` to 1");
  const Error named = with_setting_names(error, name_of);
  EXPECT_EQ(named.code(), ErrorCode::bad_options);
  EXPECT_EQ(named.message(), "train.batch_size is 0");
  EXPECT_EQ(named.remedy(), "raise train.batch_size to 1");
}

TEST(SettingNames, LeaveWhatHasNoNameAndAnUnpairedBackQuote) {
  const Error error(ErrorCode::io, "`depth` and `", "`batch_size` or `");
  const Error named = with_setting_names(error, name_of);
  EXPECT_EQ(named.message(), "`depth` and `");
  EXPECT_EQ(named.remedy(), "train.batch_size or `");
}

}  // namespace
}  // namespace troupe

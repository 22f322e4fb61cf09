#include "apps/output/slow_notice.h"

#include <gtest/gtest.h>

#include <future>

namespace troupe {
namespace {

using namespace std::chrono_literals;

TEST(SlowNotice, PrintsItsLineIfTheWorkTakesLonger) {
  std::promise<std::string> printed;
  const SlowNotice notice("opening", 0ms,
                          [&](const std::string& line) { printed.set_value(line); });
  EXPECT_EQ(printed.get_future().get(), "opening");
}

TEST(SlowNotice, IsSilentIfTheWorkEndsBefore) {
  bool printed = false;
  {
    const SlowNotice notice("opening", 24h, [&](const std::string&) { printed = true; });
  }
  EXPECT_FALSE(printed);
}

}  // namespace
}  // namespace troupe

// Readings of a GPU: NVML's by tests/nvml, and others that are made up.
#include "apps/output/gpu_usage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <future>
#include <memory>
#include <string>

namespace troupe {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* bus_id = "00000000:01:00.0";

/// Sets FAKE_NVML for a while.
struct FakeMode {
  explicit FakeMode(const char* mode) { setenv("FAKE_NVML", mode, 1); }
  ~FakeMode() { unsetenv("FAKE_NVML"); }
};

TEST(Nvml, ReadsTheGpuOfAPciBusId) {
  const auto counter = open_nvml(bus_id, TROUPE_FAKE_NVML);
  ASSERT_TRUE(counter) << counter.error().what();
  const GpuUsage seen = counter.value()->read();
  EXPECT_EQ(seen.utilisation_percent, 75);
  EXPECT_EQ(seen.memory_mib, 3 * 1024);
  EXPECT_EQ(seen.all_memory_mib, 16 * 1024);
  EXPECT_EQ(seen.power_w, 250);
}

TEST(Nvml, LeavesOutWhatTheDriverDoesNotTell) {
  const FakeMode mode("mig");
  const GpuUsage seen = open_nvml(bus_id, TROUPE_FAKE_NVML).value()->read();
  EXPECT_EQ(seen.utilisation_percent, std::nullopt);
  EXPECT_EQ(seen.power_w, 250);
}

TEST(Nvml, SaysWhyThereAreNoReadings) {
  const auto reason = [](const char* bus, const char* library) {
    const auto counter = open_nvml(bus, library);
    return counter ? "" : counter.error().message();
  };
  EXPECT_THAT(reason(bus_id, "libnone.so.1"), HasSubstr("libnone.so.1: cannot open"));
  EXPECT_THAT(reason(bus_id, "libm.so.6"),
              AllOf(HasSubstr("libm.so.6 lacks a function of NVML"), HasSubstr("nvmlInit_v2")));
  EXPECT_EQ(reason("00000000:02:00.0", TROUPE_FAKE_NVML),
            "NVML cannot open the GPU 00000000:02:00.0: Invalid Argument");
  const FakeMode mode("no_driver");
  EXPECT_THAT(reason(bus_id, TROUPE_FAKE_NVML), HasSubstr("Driver Not Loaded"));
}

/// Gives its readings one after the other, and says when all were given.
class Readings final : public GpuCounter {
 public:
  Readings(std::deque<GpuUsage> readings, std::promise<void> given)
      : readings_(std::move(readings)), given_(std::move(given)) {}
  GpuUsage read() override {
    const GpuUsage next = readings_.front();
    if (readings_.size() > 1) readings_.pop_front();
    if (readings_.size() == 1 && ++last_ == 3) given_.set_value();
    return next;
  }

 private:
  std::deque<GpuUsage> readings_;
  std::promise<void> given_;
  int last_ = 0;
};

TEST(GpuMeter, TakesReadingsByItself) {
  std::promise<void> given;
  std::future<void> all = given.get_future();
  // The last reading, which is repeated, has no utilisation and power: it changes no mean.
  const auto open = [&]() -> std::unique_ptr<GpuCounter> {
    return std::make_unique<Readings>(
        std::deque<GpuUsage>{{80, 5000, 300}, {40, 7000, 200}, {{}, 6000, {}}}, std::move(given));
  };
  const GpuMeter meter(open, std::chrono::milliseconds(1));
  all.wait();
  const GpuUsage seen = meter.summary();
  EXPECT_EQ(seen.utilisation_percent, 60);
  EXPECT_EQ(seen.memory_mib, 7000);
  EXPECT_EQ(seen.power_w, 250);
  EXPECT_EQ(meter.latest().memory_mib, 6000);
  EXPECT_EQ(meter.summary_line(),
            "GPU: busy 60 % of the time, at most 6.8 GiB in use (also by other processes), 250 W");
}

TEST(GpuMeter, SaysOfHowMuchMemoryTheUsedPartIs) {
  const GpuMeter meter([] { return open_nvml(bus_id, TROUPE_FAKE_NVML); }, std::chrono::hours(1));
  EXPECT_THAT(meter.summary_line(),
              HasSubstr("at most 3.0 of 16.0 GiB in use (also by other processes)"));
}

TEST(GpuMeter, TakesOneReadingBeforeItReturns) {
  const GpuMeter meter([] { return open_nvml(bus_id, TROUPE_FAKE_NVML); }, std::chrono::hours(1));
  EXPECT_EQ(meter.latest().utilisation_percent, 75);
}

/// Gives so many readings, and then none until `answer` is set.
class StuckCounter final : public GpuCounter {
 public:
  struct Signals {
    std::promise<void> stuck, answer, end;
  };
  StuckCounter(int readings, Signals& signals) : readings_(readings), signals_(signals) {}
  ~StuckCounter() override { signals_.end.set_value(); }
  GpuUsage read() override {
    if (readings_-- == 0) {
      signals_.stuck.set_value();
      signals_.answer.get_future().wait();
    }
    return {50, 1000, 100};
  }

 private:
  int readings_;
  Signals& signals_;
};

TEST(GpuMeter, IsNotHeldUpByADriverThatDoesNotAnswer) {
  for (const int readings : {0, 1, 3}) {
    StuckCounter::Signals signals;
    std::future<void> ended = signals.end.get_future();
    {
      const auto open = [&]() -> std::unique_ptr<GpuCounter> {
        return std::make_unique<StuckCounter>(readings, signals);
      };
      const GpuMeter meter(open, std::chrono::milliseconds(1), std::chrono::milliseconds(20));
      signals.stuck.get_future().wait();
      EXPECT_EQ(meter.latest().power_w.has_value(), readings > 0);
    }
    EXPECT_EQ(ended.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
    signals.answer.set_value();
    ended.wait();
  }
}

TEST(GpuMeter, IsNotHeldUpByADriverThatDoesNotOpen) {
  struct Signals {
    std::promise<void> answer, end;
  };
  const auto signals = std::make_shared<Signals>();
  {
    const auto open = [signals]() -> Result<std::unique_ptr<GpuCounter>> {
      signals->answer.get_future().wait();
      signals->end.set_value();
      return Error(ErrorCode::unsupported, "it was too late");
    };
    const GpuMeter meter(open, std::chrono::milliseconds(1), std::chrono::milliseconds(20));
    EXPECT_EQ(meter.latest().power_w, std::nullopt);
    EXPECT_EQ(meter.summary_line(), "GPU: no usage data in train.csv: NVML has not responded");
  }
  signals->answer.set_value();
  signals->end.get_future().wait();
}

TEST(GpuMeter, SaysWhyItHasNoReadings) {
  const GpuMeter meter([]() -> Result<std::unique_ptr<GpuCounter>> {
    return Error(ErrorCode::unsupported, "libnvidia-ml.so.1 is missing");
  });
  EXPECT_EQ(meter.latest().power_w, std::nullopt);
  EXPECT_EQ(meter.summary_line(), "GPU: no usage data in train.csv: libnvidia-ml.so.1 is missing");
}

}  // namespace
}  // namespace troupe

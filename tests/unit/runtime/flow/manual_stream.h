#pragma once
// A stream whose fences pass when a test says so.

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/device/device_stream.h"
#include "runtime/tensor/backend.h"

namespace troupe::testing {

inline constexpr Backend manual_backend{.name = "manual"};

class ManualStream final : public DeviceStream {
 public:
  explicit ManualStream(bool errors_end_run = false)
      : DeviceStream({&manual_backend, 0}), errors_end_run_(errors_end_run) {}
  bool errors_end_run() const override { return errors_end_run_; }
  WorkPtr fence() override {
    fences_.push_back(std::make_shared<Work>());
    return fences_.back();
  }
  void wait(const WorkPtr& fence, Awaits what) override {
    if (what == Awaits::results && !fence->done()) ++awaited;
  }
  void synchronize() override { throw std::logic_error("a handler waited for its stream"); }

  void begin_range(const std::string& name) override { ranges.push_back(name); }
  DeviceRangePtr end_range() override {
    ++ranges_ended;
    return on_device ? std::make_unique<Range>(on_device) : nullptr;
  }

  /// Ends the next fence; false if there is none.
  bool pass(const Status& status = success()) {
    if (passed_ == fences_.size()) return false;
    fences_[passed_++]->finish(status);
    return true;
  }

  int awaited = 0;  ///< fences of others that had not passed
  std::vector<std::string> ranges;
  std::size_t ranges_ended = 0;
  /// When the work of a range was done, if it was; null: the device does not time it.
  std::function<std::optional<DeviceSpan>()> on_device;

 private:
  struct Range final : DeviceRange {
    explicit Range(std::function<std::optional<DeviceSpan>()> when_done)
        : when(std::move(when_done)) {}
    std::optional<DeviceSpan> span() override { return when(); }
    std::function<std::optional<DeviceSpan>()> when;
  };
  const bool errors_end_run_;
  std::vector<WorkPtr> fences_;
  std::size_t passed_ = 0;
};

/// An actor with a stream of the test's, which all of its incarnations share.
template <class A>
class OnStream final : public A {
 public:
  template <class... Args>
  explicit OnStream(std::shared_ptr<ManualStream> stream, Args... args)
      : A(args...), stream_(std::move(stream)) {}
  DeviceStream* stream() const override { return stream_.get(); }

 private:
  std::shared_ptr<ManualStream> stream_;
};

}  // namespace troupe::testing

#pragma once
// Small actors for the tests of the runtime.

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "runtime/flow/actor.h"
#include "runtime/flow/graph.h"

namespace troupe::testing {

/// Takes and sends fixed numbers of messages on ports of its own making, `limit` times.
class Worker final : public Actor {
 public:
  struct Rates {
    std::vector<std::uint32_t> takes, fills;  ///< one an input, one an output
    std::uint32_t limit = 0;
    bool hides_rules = false;  ///< the proof of liveness then knows nothing of it
  };

  explicit Worker(Rates rates)
      : rates_(std::move(rates)), sent_(rates_.fills.size(), 0), held_(rates_.takes.size()) {
    for (std::size_t i = 0; i < rates_.takes.size(); ++i)
      in_.push_back(std::make_unique<Input<int>>(this, "in" + std::to_string(i)));
    for (std::size_t i = 0; i < rates_.fills.size(); ++i)
      out_.push_back(std::make_unique<Output<int>>(this, "out" + std::to_string(i)));
  }

  bool ready() const override {
    if (fired_ == rates_.limit) return false;
    for (const auto& in : in_)
      if (in->ready()) return true;
    return can_fire();
  }
  ActionLabel act() override {
    for (std::size_t i = 0; i < in_.size(); ++i)
      while (in_[i]->ready()) held_[i].push_back(in_[i]->take());
    return can_fire() ? fire() : ActionLabel{"take", {0, Purpose::train, fired_}};
  }
  bool outlives_steps() const override { return true; }
  FiringRules firing_rules() const override {
    if (rates_.hides_rules) return {};
    Transition fire{.name = "fire", .takes = {}, .releases = {}, .fills = {}};
    for (std::size_t i = 0; i < in_.size(); ++i)
      fire.takes.push_back({in_[i].get(), rates_.takes[i]});
    fire.releases = fire.takes;
    for (std::size_t i = 0; i < out_.size(); ++i)
      fire.fills.push_back({out_[i].get(), rates_.fills[i]});
    return {{std::move(fire)}, {}};
  }

 private:
  bool can_fire() const {
    for (std::size_t i = 0; i < in_.size(); ++i)
      if (held_[i].size() < rates_.takes[i]) return false;
    for (std::size_t i = 0; i < out_.size(); ++i)
      if (!out_[i]->has_slot(rates_.fills[i])) return false;
    return true;
  }
  ActionLabel fire() {
    for (std::size_t i = 0; i < in_.size(); ++i)
      for (std::uint32_t n = 0; n < rates_.takes[i]; ++n) {
        in_[i]->release(held_[i].front());
        held_[i].pop_front();
      }
    for (std::size_t i = 0; i < out_.size(); ++i)
      for (std::uint32_t n = 0; n < rates_.fills[i]; ++n)
        out_[i]->send({.key = {0, Purpose::train, sent_[i]++}}, 0);
    if (++fired_ == rates_.limit) finish();
    return {"fire", {0, Purpose::train, fired_}};
  }

  Rates rates_;
  std::vector<std::unique_ptr<Input<int>>> in_;
  std::vector<std::unique_ptr<Output<int>>> out_;
  std::vector<std::uint32_t> sent_;
  std::vector<std::deque<Held<int>>> held_;  ///< taken for the next firing, by input
  std::uint32_t fired_ = 0;
};

/// Sends 0, 1, 2, … below `count`.
class Counter : public Actor {
 public:
  explicit Counter(std::uint32_t count) : count_(count) {}
  Output<int> out{this, "out"};

  bool ready() const override { return next_ < count_ && out.has_slot(); }
  ActionLabel act() override {
    const MessageKey key{0, Purpose::train, next_};
    out.send({.key = key}, static_cast<int>(next_++));
    return {"send", key};
  }

 private:
  std::uint32_t count_;
  std::uint32_t next_ = 0;
};

/// Adds one to each number.
class Adder : public Actor {
 public:
  Input<int> in{this, "in"};
  Output<int> out{this, "out"};

  ActionLabel act() override {
    const auto held = in.take();
    out.send(held.header, *held + 1);
    in.release(held);
    return {"add", held.header.key};
  }
};

/// Sends two messages with one key: a mistake.
class Stutterer final : public Actor {
 public:
  Output<int> out{this, "out"};
  ActionLabel act() override {
    out.send({}, 1);
    out.send({}, 2);
    return {"stutter", {}};
  }
};

/// Emits a number, then ends the run.
class Teller : public Actor {
 public:
  bool ready() const override { return !told_; }
  ActionLabel act() override {
    told_ = true;
    emit(42);
    finish();
    return {"tell", {}};
  }
  bool outlives_steps() const override { return true; }

 private:
  bool told_ = false;
};

/// Appends what comes to a vector of the test's, and ends the run after `count`.
class Collector : public Actor {
 public:
  Collector(std::shared_ptr<std::vector<int>> seen, std::size_t count)
      : seen_(std::move(seen)), count_(count) {}
  Input<int> in{this, "in"};

  ActionLabel act() override {
    const auto held = in.take();
    seen_->push_back(*held);
    in.release(held);
    if (seen_->size() == count_) finish();
    return {"collect", held.header.key};
  }
  bool outlives_steps() const override { return true; }

 private:
  std::shared_ptr<std::vector<int>> seen_;
  std::size_t count_;
};

}  // namespace troupe::testing

#include "actors/captured_program.h"

#include <algorithm>
#include <array>
#include <utility>

#include "ops/on_device.h"
#include "runtime/device/block_uses.h"
#include "runtime/device/device_stream.h"
#include "runtime/tensor/backend.h"
#include "runtime/tensor/out_of_memory.h"

namespace troupe {
namespace {

/// Blocks of the device's own memory. All are kept to the end: graphs know them.
class Blocks {
 public:
  explicit Blocks(std::shared_ptr<DeviceStream> stream) : stream_(std::move(stream)) {}
  ~Blocks() {
    const Device device = stream_->device();
    for (const auto& [block, bytes] : blocks_) {
      try {  // graphs that use it may still run
        device.backend->block_uses(device.index).use(block, *stream_);
      } catch (...) {  // as when the device is lost: nobody gets the block again
        continue;
      }
      device.backend->allocator(device.index).release(block, bytes);
    }
  }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  void* allocate(std::size_t bytes) try {
    const Device device = stream_->device();
    void* block = device.backend->allocator(device.index).allocate(bytes);
    blocks_.emplace_back(block, bytes);
    // After its former uses, though the program may fail before it uses the block itself.
    device.backend->block_uses(device.index).use(block, *stream_);
    return block;
  } catch (const OutOfMemory& error) {  // of another type: blocks that graphs know make no room
    throw Error(error.code(), error.message(), "set `cuda_graphs` to false, or " + error.remedy());
  }

 private:
  std::shared_ptr<DeviceStream> stream_;
  std::vector<std::pair<void*, std::size_t>> blocks_;
};

DeviceMemory memory_of(std::shared_ptr<DeviceStream> stream) {
  auto blocks = std::make_shared<Blocks>(std::move(stream));
  return {.allocate = [blocks](std::size_t bytes) { return blocks->allocate(bytes); },
          .release = [](void*, std::size_t) {}};
}

/// The work that is given while it lives is repeated later, in this memory.
class Repeated {
 public:
  Repeated(DeviceStream& stream, CachingAllocator& memory, const Tensor& key)
      : stream_(stream), scope_(memory) {
    stream_.repeat_with(key);
  }
  ~Repeated() { stream_.repeat_with({}); }
  Repeated(const Repeated&) = delete;
  Repeated& operator=(const Repeated&) = delete;

 private:
  DeviceStream& stream_;
  AllocationScope scope_;
};

template <class F>
DeviceGraphPtr capture(DeviceStream& stream, F&& give) {
  stream.begin_capture();
  try {
    give();
  } catch (...) {
    try {
      (void)stream.end_capture();
    } catch (const Error&) {  // the first error says more
    }
    throw;
  }
  return stream.end_capture();
}

bool is_alike(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() && a.layout() == b.layout();
}

}  // namespace

/// The places of a micro-batch in flight.
struct CapturedProgram::Lane {
  /// Some work of a pass, and what it returns.
  struct Part {
    DeviceGraphPtr graph;
    std::vector<Tensor> results;
  };

  explicit Lane(const Stream& stream)
      : device(*device_stream(stream)),
        memory(stream.device, memory_of(device.shared_from_this())) {}

  /// `f` gives the work of the part and returns its results.
  template <class F>
  const std::vector<Tensor>& run(Part& part, F&& f) {
    if (!part.graph) {
      const Repeated repeated(device, memory, key);
      if (!rehearsed) {
        part.results = f();
        return part.results;
      }
      part.graph = capture(device, [&] { part.results = f(); });
    }
    part.graph->launch();
    return part.results;
  }
  /// After all parts have run.
  void end() {
    saved.reset();
    if (std::exchange(rehearsed, true)) return;
    forget();
  }
  void forget() {
    saved.reset();
    for (Part* part : {&forward, &inputs}) *part = {};
    for (Part& part : buckets) part = {};
  }

  DeviceStream& device;
  CachingAllocator memory;  ///< outlives the tensors in it
  Tensor x, grad, key;      ///< what the work reads
  std::unique_ptr<Saved> saved;
  Part forward, inputs;
  std::vector<Part> buckets;
  bool rehearsed = false, taken = false;
};

/// A micro-batch in flight. Without a lane, `saved` is that of the program.
struct CapturedProgram::Pass final : Saved {
  ~Pass() override {
    if (!lane) return;
    if (!lane->rehearsed) lane->forget();  // abandoned: its memory is free for the next one
    lane->taken = false;
  }
  LanePtr lane;
  std::unique_ptr<Saved> saved;
  bool has_gradient = false;
};

CapturedProgram::CapturedProgram(std::unique_ptr<StageProgram> program, const Stream& stream,
                                 std::size_t buckets, std::size_t shapes)
    : program_(std::move(program)), stream_(stream), buckets_(buckets), shapes_(shapes) {}

CapturedProgram::~CapturedProgram() = default;

void CapturedProgram::use(StatePtr state) {
  const bool has_average = std::ranges::any_of(
      state->optimizer_state, [](const NamedTensor& kept) { return kept.name == average_name; });
  if (std::exchange(has_average_, has_average) != has_average) evaluation_.clear();
  program_->use(std::move(state));
}

/// Null: without a graph. No more than `most` shapes have lanes.
CapturedProgram::LanePtr CapturedProgram::lane_for(const Tensor& x, std::vector<Lanes>& shapes,
                                                   std::size_t most) {
  if (x.dtype() == DType::i64) return nullptr;
  const auto place = std::ranges::find_if(shapes, [&](const Lanes& lanes) {
    const Tensor& of_lanes = lanes.front()->x;
    return is_alike(of_lanes, x) || of_lanes.bytes() < x.bytes();
  });
  const bool known = place != shapes.end() && is_alike(place->front()->x, x);
  if (known) {
    const auto free = std::ranges::find(*place, false, &Lane::taken);
    if (free != place->end()) return *free;
  } else if (place - shapes.begin() == static_cast<std::ptrdiff_t>(most)) {
    return nullptr;
  }
  auto lane = std::make_shared<Lane>(stream_);
  lane->x = Tensor::empty(x.shape(), x.dtype(), stream_.device, x.layout());
  lane->key = Tensor::empty({2}, DType::u32, stream_.device);
  lane->buckets.resize(buckets_);
  if (known)
    place->push_back(lane);
  else
    shapes.insert(place, Lanes{lane});
  if (shapes.size() > most) shapes.pop_back();
  return lane;
}

void CapturedProgram::fill(Tensor& place, const Tensor& from) const {
  kernels(stream_.device, DType::f32).copy(stream_, from, place);
}

/// For others, while the lane is used again.
Tensor CapturedProgram::copied(const Tensor& tensor) const {
  if (!tensor.defined()) return {};
  Tensor copy = Tensor::empty(tensor.shape(), tensor.dtype(), tensor.device(), tensor.layout());
  fill(copy, tensor);
  return copy;
}

StageProgram::Forward CapturedProgram::forward(const Tensor& x, const RandomKey& random,
                                               bool wants_input_gradient, std::size_t range) {
  auto pass = std::make_unique<Pass>();
  const LanePtr lane = lane_for(x, training_, shapes_);
  if (!lane) {
    Forward made = program_->forward(x, random, wants_input_gradient, range);
    pass->saved = std::move(made.saved);
    return {std::move(made.output), std::move(pass)};
  }
  pass->lane = lane;
  lane->taken = true;
  fill(lane->x, x);
  const std::array<std::uint32_t, 2> key{random.step, random.micro_batch};
  fill(lane->key, Tensor::from<std::uint32_t>({2}, key));
  const auto& results = lane->run(lane->forward, [&] {
    Forward made = program_->forward(lane->x, random, wants_input_gradient, range);
    lane->saved = std::move(made.saved);
    return std::vector{std::move(made.output)};
  });
  return {copied(results.front()), std::move(pass)};
}

/// Once for each micro-batch.
void CapturedProgram::give_gradient(Pass& pass, const Tensor& grad) const {
  if (std::exchange(pass.has_gradient, true) || !grad.defined()) return;
  Tensor& place = pass.lane->grad;
  if (!place.defined())
    place = Tensor::empty(grad.shape(), grad.dtype(), stream_.device, grad.layout());
  fill(place, grad);
}

Tensor CapturedProgram::input_gradient(Saved& saved, const Tensor& grad) {
  auto& pass = static_cast<Pass&>(saved);
  if (!pass.lane) return program_->input_gradient(*pass.saved, grad);
  Lane& lane = *pass.lane;
  give_gradient(pass, grad);
  return copied(
      lane.run(lane.inputs,
               [&] { return std::vector{program_->input_gradient(*lane.saved, lane.grad)}; })
          .front());
}

StageProgram::Backward CapturedProgram::backward(Saved& saved, const Tensor& grad,
                                                 std::size_t bucket) {
  auto& pass = static_cast<Pass&>(saved);
  if (!pass.lane) return program_->backward(*pass.saved, grad, bucket);
  Lane& lane = *pass.lane;
  give_gradient(pass, grad);
  const auto& results = lane.run(lane.buckets.at(bucket), [&] {
    Backward made = program_->backward(*lane.saved, lane.grad, bucket);
    return std::vector{std::move(made.input_gradient), std::move(made.gradient),
                       std::move(made.statistics)};
  });
  Backward made{copied(results[0]), copied(results[1]), copied(results[2])};
  if (bucket + 1 == buckets_) lane.end();
  return made;
}

Tensor CapturedProgram::evaluate(const Tensor& x, std::size_t range) {
  const LanePtr lane = lane_for(x, evaluation_, 1);
  if (!lane) return program_->evaluate(x, range);
  fill(lane->x, x);
  Tensor result = copied(
      lane->run(lane->forward, [&] { return std::vector{program_->evaluate(lane->x, range)}; })
          .front());
  lane->end();
  return result;
}

}  // namespace troupe

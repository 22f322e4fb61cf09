#include "ops/cpu/onednn.h"

#include <fmt/format.h>
#include <omp.h>

#include <cstddef>

#include "runtime/error.h"

namespace troupe::cpu {
namespace {

using Tag = dnnl::memory::format_tag;

Tag tag_of(const Shape& shape, Layout layout) {
  if (shape.rank() == 1) return Tag::a;
  if (shape.rank() == 2) return Tag::ab;
  if (shape.rank() == 5) return Tag::abcde;
  switch (layout) {
    case Layout::row_major:
      return Tag::abcd;
    case Layout::nhwc:
      return Tag::acdb;
    case Layout::nchw16c:
      return Tag::aBcd16b;
  }
  throw Error(ErrorCode::internal, "a layout without a oneDNN name");
}

dnnl::memory::desc memory_with(const Shape& shape, DType dtype, Tag tag) {
  using Type = dnnl::memory::data_type;
  return {{shape.dims().begin(), shape.dims().end()},
          dtype == DType::bf16 ? Type::bf16 : Type::f32,
          tag};
}

}  // namespace

const dnnl::engine& onednn_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::primitive_attr onednn_attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

dnnl::memory::desc onednn_memory(const Shape& shape, Layout layout, DType dtype) {
  return memory_with(shape, dtype, tag_of(shape, layout));
}

dnnl::memory::desc onednn_any_memory(const Shape& shape, DType dtype) {
  return memory_with(shape, dtype, Tag::any);
}

void use_one_thread() { omp_set_num_threads(1); }

PreparedPrimitive::PreparedPrimitive(dnnl::primitive primitive, const Arguments& arguments,
                                     const dnnl::memory::desc& scratch)
    : primitive_(std::move(primitive)),
      stream_(onednn_engine()),
      scratch_bytes_(scratch.get_size()) {
  const auto add = [&](int argument, const dnnl::memory::desc& memory) {
    memories_.emplace_back(memory, onednn_engine(), nullptr);  // DNNL_MEMORY_NONE
    arguments_.push_back({argument, memories_.back().get()});
  };
  for (const auto& [argument, memory] : arguments) add(argument, memory);
  if (scratch_bytes_ > 0) add(DNNL_ARG_SCRATCHPAD, scratch);
}

void PreparedPrimitive::set(int argument, const void* data) {
  for (std::size_t i = 0; i < arguments_.size(); ++i)
    if (arguments_[i].arg == argument) return memories_[i].set_data_handle(const_cast<void*>(data));
  throw Error(ErrorCode::internal, fmt::format("a primitive has no argument {}", argument));
}

void PreparedPrimitive::execute_here(void* scratch) {
  if (scratch_bytes_ > 0) set(DNNL_ARG_SCRATCHPAD, scratch);
  use_one_thread();
  check_status(dnnl_primitive_execute(primitive_.get(), stream_.get(),
                                      static_cast<int>(arguments_.size()), arguments_.data()));
}

void check_status(dnnl_status_t status) {
  if (status != dnnl_success)
    throw Error(ErrorCode::internal,
                fmt::format("oneDNN failed to run a primitive (status {})", int{status}));
}

}  // namespace troupe::cpu

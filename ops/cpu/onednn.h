#pragma once
// What the oneDNN-backed kernels share: the engine, tensors as memory descriptors, and compiled
// primitives that run repeatedly.

#include <cstddef>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace troupe::cpu {

const dnnl::engine& onednn_engine();

/// The attributes of every primitive in this folder: the caller provides the scratch memory.
dnnl::primitive_attr onednn_attributes();

/// Memory of this shape, in f32 or bf16; rank 4 in any layout, others row-major.
dnnl::memory::desc onednn_memory(const Shape& shape, Layout layout, DType dtype = DType::f32);
/// Memory of this shape in the order that the primitive selects.
dnnl::memory::desc onednn_any_memory(const Shape& shape, DType dtype = DType::f32);

/// Keeps oneDNN's primitives on the calling thread. oneDNN reads the number of threads of OpenMP
/// both when it compiles a primitive and when it runs one, and an actor may run on any thread.
void use_one_thread();

/// A compiled oneDNN primitive with its arguments. Running it again on other memory builds and
/// allocates nothing; working memory is a Scratch. Used by one thread at a time.
class PreparedPrimitive {
 public:
  using Arguments = std::vector<std::pair<int, dnnl::memory::desc>>;

  PreparedPrimitive(dnnl::primitive primitive, const Arguments& arguments,
                    const dnnl::memory::desc& scratch);

  void set(int argument, const void* data);

  /// The scratch memory that execute_here() needs.
  std::size_t scratch_bytes() const { return scratch_bytes_; }
  /// Runs on the calling thread alone, with this scratch memory. May be called by a thread of
  /// parallel(). Throws as check_status.
  void execute_here(void* scratch);

 private:
  dnnl::primitive primitive_;
  dnnl::stream stream_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
  std::size_t scratch_bytes_ = 0;
};

/// Throws Error{internal} if a primitive failed.
void check_status(dnnl_status_t status);

}  // namespace troupe::cpu

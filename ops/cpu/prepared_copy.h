#pragma once
#include <vector>

#include "ops/cpu/onednn.h"

namespace troupe::cpu {

/// A copy from one memory order or type into another, compiled for the stream's threads, which
/// share the first dimension. A small copy uses fewer threads, because waking a second thread takes
/// longer than copying a few pages. Used by one thread at a time.
class PreparedCopy {
 public:
  PreparedCopy(const Stream& stream, const dnnl::memory::desc& from, const dnnl::memory::desc& to);
  void run(const Stream& stream, const void* from, void* to);

 private:
  std::vector<PreparedPrimitive> parts_;
};

/// The same on the calling thread alone: arguments DNNL_ARG_FROM and DNNL_ARG_TO.
PreparedPrimitive prepare_copy(const dnnl::memory::desc& from, const dnnl::memory::desc& to);

}  // namespace troupe::cpu

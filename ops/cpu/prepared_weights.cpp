#include "ops/cpu/prepared_weights.h"

#include "runtime/tensor/allocator.h"

namespace troupe::cpu {

void PreparedWeights::use(const Tensor& weight, const Tensor& bias, std::uint64_t version) {
  if (version_ == version) return;
  weight_ = weight;
  bias_ = bias;
  version_ = version;
  ++serial_;
}

const void* PreparedWeights::in_order(const Stream& stream, const dnnl::memory::desc& order,
                                      const dnnl::memory::dims& begin) {
  const dnnl::memory::desc plain = onednn_memory(weight_.shape(), Layout::row_major);
  if (order == plain) return weight_.raw();
  for (Copy& copy : copies_) {
    if (copy.order != order || copy.begin != begin) continue;
    if (copy.version == serial_) return copy.data.raw();
    copy.version = serial_;
    copy.fill.run(stream, weight_.raw(), copy.data.raw());
    return copy.data.raw();
  }
  const LastingScope lasting;
  Copy& copy = copies_.emplace_back(
      Copy{order, begin, PreparedCopy(stream, plain.submemory_desc(order.dims(), begin), order),
           Tensor::empty({static_cast<std::int64_t>(order.get_size())}, DType::u8, stream.device),
           serial_});
  copy.fill.run(stream, weight_.raw(), copy.data.raw());
  return copy.data.raw();
}

}  // namespace troupe::cpu

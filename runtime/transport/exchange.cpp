#include "runtime/transport/exchange.h"

#include "runtime/transport/wait.h"

namespace troupe {
namespace {

constexpr std::uint64_t bulk_tag = 1, answer_tag = 2;
const TensorMeta answer_meta{.shape = {1}, .dtype = DType::f32, .layout = Layout::row_major};

}  // namespace

void send_answered(Communicator& ranks, int to, const Tensor& tensor, int count, int ahead) {
  for (int i = 0; i < count + ahead; ++i) {
    if (i >= ahead) wait_for(ranks.receive(to, answer_tag, answer_meta)).value();
    if (i < count) ranks.send(to, bulk_tag, tensor);
  }
}

void answer(Communicator& ranks, int from, const TensorMeta& meta, int count,
            const std::function<void(const Tensor&)>& received) {
  const Tensor answer = Tensor::zeros({1});
  for (int i = 0; i < count; ++i) {
    const ReceivePtr work = ranks.receive(from, bulk_tag, meta);
    wait_for(work).value();
    if (received) received(work->tensor());
    ranks.send(from, answer_tag, answer);
  }
}

}  // namespace troupe

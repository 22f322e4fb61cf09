#include "runtime/transport/work.h"

namespace troupe {

Tensor Receive::tensor() const {
  status().value();  // never changes again, and tensor_ was stored before it
  return tensor_;
}

bool Receive::deliver(Tensor tensor) {
  return finish(success(), [&] { tensor_ = std::move(tensor); });
}

}  // namespace troupe

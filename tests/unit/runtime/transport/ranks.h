#pragma once
// Ranks of a communicator as threads of the test.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/transport/transport.h"

namespace troupe::test {

/// Connected communicators by the name of their transport: "local", "shm", "gloo". `deferrals`: by
/// rank; may have fewer.
std::vector<std::unique_ptr<Communicator>> connect(
    const std::string& transport, int size, const std::vector<DeliveryDeferral*>& deferrals = {});

/// Connects one rank by a transport of the product (on loopback): "shm", "gloo".
Result<std::unique_ptr<Communicator>> connect_one(const std::string& transport, Store& store,
                                                  int rank, int size,
                                                  const std::string& group = "g",
                                                  DeliveryDeferral* deferral = nullptr);

/// Connects and runs `part` on a thread a rank; what it throws is thrown here.
void run_ranks(const std::string& transport, int size,
               const std::function<void(Communicator&)>& part);

/// f32 values that are different in every rank and element, and whose sums depend on their order.
Tensor values(const Shape& shape, int rank, DType dtype = DType::f32);
std::string bytes_of(const Tensor& tensor);

}  // namespace troupe::test

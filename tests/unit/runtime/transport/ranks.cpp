#include "tests/unit/runtime/transport/ranks.h"

#include <exception>
#include <thread>

#include "memory_store.h"
#include "runtime/tensor/cast.h"
#include "tests/unit/runtime/transport/local.h"

namespace troupe::test {

Result<std::unique_ptr<Communicator>> connect_one(const std::string& transport, Store& store,
                                                  int rank, int size, const std::string& group,
                                                  DeliveryDeferral* deferral) {
  return transport_named(transport).connect(
      {.store = store, .rank = rank, .size = size, .name = group, .deferral = deferral});
}

std::vector<std::unique_ptr<Communicator>> connect(
    const std::string& transport, int size, const std::vector<DeliveryDeferral*>& deferrals) {
  if (transport == "local") return make_local_communicators(size);
  MemoryStore store;
  std::vector<std::unique_ptr<Communicator>> ranks(static_cast<std::size_t>(size));
  std::vector<std::exception_ptr> failures(ranks.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank, at = static_cast<std::size_t>(rank)] {
      try {
        DeliveryDeferral* const deferral = at < deferrals.size() ? deferrals[at] : nullptr;
        ranks[at] = std::move(connect_one(transport, store, rank, size, "g", deferral).value());
      } catch (...) {
        failures[at] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& failure : failures)
    if (failure) std::rethrow_exception(failure);
  return ranks;
}

void run_ranks(const std::string& transport, int size,
               const std::function<void(Communicator&)>& part) {
  auto ranks = connect(transport, size);
  std::vector<std::exception_ptr> failures(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        part(*ranks[rank]);
      } catch (const Error& error) {
        failures[rank] = std::current_exception();
        ranks[rank]->abort(error);
      } catch (...) {
        failures[rank] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

Tensor values(const Shape& shape, int rank, DType dtype) {
  Tensor result = Tensor::zeros(shape, is_floating(dtype) ? DType::f32 : dtype);
  std::uint32_t state = 12345u + 7919u * static_cast<std::uint32_t>(rank);
  for (std::int64_t e = 0; e < result.element_count(); ++e) {
    state = state * 1664525u + 1013904223u;
    const float value = static_cast<float>(static_cast<std::int32_t>(state)) * 1e-9f *
                        static_cast<float>(1 << ((rank + e) % 5 * 3));
    if (result.dtype() == DType::f32)
      result.elements<float>()[static_cast<std::size_t>(e)] = value;
    else
      result.raw()[static_cast<std::size_t>(e) * size_of(dtype)] =
          static_cast<std::byte>(e + std::int64_t{3} * rank);
  }
  return is_floating(dtype) ? cast(result, dtype) : result;
}

std::string bytes_of(const Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.raw()), tensor.bytes()};
}

}  // namespace troupe::test

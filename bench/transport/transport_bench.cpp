// Tensors between processes of this host against what bounds them, pairs interleaved, results
// checked first. Prints "NAME: milliseconds milliseconds ..." a line.
//
//   transport_bench send [repetitions]         16 MiB to another process and its answer: shared
//                                              memory, memcpy of one thread; Gloo, Gloo alone
//   transport_bench stream [repetitions]       the same, a tensor of 32 that follow each other
//   transport_bench all_reduce N [repetitions] 64 MiB of f32 over N processes: our tree on shared
//                                              memory and Gloo; Gloo's own ring and bcube
//
// Everything over Gloo goes through loopback.

#include <fmt/format.h>
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/transport/communicator.h"
#include "runtime/transport/tree_sum.h"
#include "tests/unit/runtime/transport/processes.h"

namespace {

using namespace troupe;
using Clock = std::chrono::steady_clock;
using Readings = std::map<std::string, std::vector<double>>;

double since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void print(const Readings& readings) {
  for (const auto& [name, values] : readings) {
    fmt::print("{}:", name);
    for (const double value : values) fmt::print(" {:.4f}", value);
    fmt::print("\n");
  }
}

void check(bool right, const char* what) {
  if (!right) throw Error(ErrorCode::internal, fmt::format("{}: a wrong result", what));
}

struct Ways {
  std::unique_ptr<Communicator> shm, gloo;
  std::shared_ptr<gloo::rendezvous::Context> alone;

  Ways(Store& store, int rank, int size, const std::string& folder) {
    shm = std::move(make_shm_communicator(store, rank, size).value());
    GlooOptions options;
    options.interface = "lo";
    gloo = std::move(make_gloo_communicator(store, rank, size, options).value());
    auto device = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr("127.0.0.1"));
    gloo::rendezvous::FileStore words(folder);
    alone = std::make_shared<gloo::rendezvous::Context>(rank, size);
    alone->connectFullMesh(words, device);
  }
};

constexpr std::size_t tensor_bytes = std::size_t{16} << 20;
const TensorMeta tensor_meta{.shape = {static_cast<std::int64_t>(tensor_bytes / 4)},
                             .dtype = DType::f32,
                             .layout = Layout::row_major,
                             .device = {}};
const TensorMeta answer_meta{
    .shape = {1}, .dtype = DType::f32, .layout = Layout::row_major, .device = {}};

void fill(Tensor& tensor, float value) {
  for (float& element : tensor.elements<float>()) element = value++;
}

/// First, middle and last: looking at all would take longer than sending them.
void check_some(const Tensor& came, const Tensor& sent, const char* what) {
  const auto here = came.elements<float>(), there = sent.elements<float>();
  for (const std::size_t at : {std::size_t{0}, here.size() / 2, here.size() - 1})
    check(here[at] == there[at], what);
}

/// Rank 0 sends `count` tensors, `ahead` of them before the first is answered.
void send_ours(Communicator& ranks, const Tensor& tensor, int count, int ahead) {
  const Tensor answer = Tensor::zeros({1});
  if (ranks.rank() == 0) {
    for (int i = 0; i < count + ahead; ++i) {
      if (i >= ahead) ranks.receive(1, 2, answer_meta)->wait().value();
      if (i < count) ranks.send(1, 1, tensor);
    }
    return;
  }
  for (int i = 0; i < count; ++i) {
    const ReceivePtr work = ranks.receive(0, 1, tensor_meta);
    work->wait().value();
    check_some(work->tensor(), tensor, "send");
    ranks.send(0, 2, answer);
  }
}

/// The same with Gloo's own calls; receives into memory that is there already, posted early.
void send_alone(gloo::rendezvous::Context& ranks, Tensor& tensor, Tensor& came, int count,
                int ahead) {
  float answer = 7;
  auto answers = ranks.createUnboundBuffer(&answer, sizeof answer);
  Tensor& moved = ranks.rank == 0 ? tensor : came;
  auto bulk = ranks.createUnboundBuffer(moved.raw(), moved.bytes());
  int sent = 0;
  if (ranks.rank == 0) {
    for (int i = 0; i < count + ahead; ++i) {
      if (i >= ahead) {
        answers->recv(1, 2);
        answers->waitRecv();
      }
      if (i < count) {
        bulk->send(1, 1);
        ++sent;
      }
    }
    for (; sent > 0; --sent) bulk->waitSend();
    return;
  }
  for (int i = 0; i < count; ++i) {
    bulk->recv(0, 1);
    bulk->waitRecv();
    check_some(came, tensor, "gloo alone");
    answers->send(0, 2);
    answers->waitSend();
  }
}

/// Which of `count` comes at this turn of a round: forwards in even rounds, backwards in odd ones.
std::size_t place_of(std::size_t turn, int round, std::size_t count) {
  return round % 2 == 0 ? turn : count - 1 - turn;
}

int send(int rank, Store& store, const std::string& folder, int repetitions, int count, int ahead) {
  Ways ways(store, rank, 2, folder);
  Tensor tensor = Tensor::zeros({tensor_bytes / 4}), copy = tensor.clone();
  Readings readings;
  const std::vector<std::pair<std::string, std::function<void()>>> kinds{
      {"memcpy",
       [&] {
         for (int j = 0; j < count && rank == 0; ++j)
           std::memcpy(copy.raw(), tensor.raw(), tensor.bytes());
       }},
      {"shm", [&] { send_ours(*ways.shm, tensor, count, ahead); }},
      {"gloo", [&] { send_ours(*ways.gloo, tensor, count, ahead); }},
      {"gloo alone", [&] { send_alone(*ways.alone, tensor, copy, count, ahead); }}};
  for (int i = -4; i < repetitions; ++i) {
    // Both know what comes; what came in the round before would be found out.
    fill(tensor, static_cast<float>(3 * i));
    // Each finds the caches as the one before it leaves them: so all take turns in being first.
    for (std::size_t turn = 0; turn < kinds.size(); ++turn) {
      const auto& [name, work] = kinds[place_of(turn, i, kinds.size())];
      const auto start = Clock::now();
      work();
      if (i >= 0) readings[name].push_back(since(start) / count);
    }
  }
  if (rank == 0) print(readings);
  return 0;
}

void reduce_alone(const std::shared_ptr<gloo::Context>& ranks, Tensor& tensor,
                  gloo::AllreduceOptions::Algorithm algorithm) {
  gloo::AllreduceOptions options(ranks);
  options.setOutput(tensor.data<float>(), tensor.elements<float>().size());
  options.setAlgorithm(algorithm);
  options.setReduceFunction(
      static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
  gloo::allreduce(options);
}

/// What rank `rank` adds, again and again: sums of it round, so that their order shows.
std::vector<float> share_of(int rank) {
  std::vector<float> share(1009);
  for (std::size_t i = 0; i < share.size(); ++i)
    share[i] = 0.1f * static_cast<float>(rank + 1) + 1e-3f * static_cast<float>(i);
  return share;
}

std::vector<float> sum_in_the_tree(int size) {
  std::vector<std::vector<float>> shares;
  std::vector<const std::byte*> parts;
  shares.reserve(static_cast<std::size_t>(size));
  parts.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) shares.push_back(share_of(rank));
  for (const auto& share : shares)
    parts.push_back(reinterpret_cast<const std::byte*>(share.data()));
  std::vector<float> sum(shares.front().size());
  transport::tree_sum(DType::f32, parts, reinterpret_cast<std::byte*>(sum.data()), sum.size());
  return sum;
}

/// Ours to the bit; Gloo adds in an order of its own.
void check_sum(const std::string& name, const Tensor& tensor, const std::vector<float>& sum) {
  const float slack = name.starts_with("gloo alone") ? 1e-5f : 0.0f;
  const auto elements = tensor.elements<float>();
  for (std::size_t i = 0; i < elements.size(); ++i)
    check(std::abs(elements[i] - sum[i % sum.size()]) <= slack * sum[i % sum.size()], name.c_str());
}

int all_reduce(int rank, int size, Store& store, const std::string& folder, int repetitions) {
  using Algorithm = gloo::AllreduceOptions::Algorithm;
  Ways ways(store, rank, size, folder);
  Tensor tensor = Tensor::empty({std::int64_t{16} << 20});
  const Tensor ready = Tensor::zeros({1});
  const std::vector<std::pair<std::string, std::function<void()>>> kinds{
      {"shm", [&] { ways.shm->all_reduce(1, tensor)->wait().value(); }},
      {"gloo", [&] { ways.gloo->all_reduce(1, tensor)->wait().value(); }},
      {"gloo alone, ring", [&] { reduce_alone(ways.alone, tensor, Algorithm::RING); }},
      {"gloo alone, bcube", [&] { reduce_alone(ways.alone, tensor, Algorithm::BCUBE); }}};
  Readings readings;
  const std::vector<float> share = share_of(rank), sum = sum_in_the_tree(size);
  for (int i = -1; i < repetitions; ++i)
    for (const auto& [name, work] : kinds) {
      const auto elements = tensor.elements<float>();
      for (std::size_t e = 0; e < elements.size(); ++e) elements[e] = share[e % share.size()];
      ways.shm->all_reduce(2, ready)->wait().value();  // all begin together
      const auto start = Clock::now();
      work();
      if (i >= 0) readings[name].push_back(since(start));
      check_sum(name, tensor, sum);
    }
  if (rank == 0) print(readings);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const bool reduces = what == "all_reduce";
  const int size = reduces && argc > 2 ? std::atoi(argv[2]) : 2;
  const int given = reduces ? 3 : 2;
  const int repetitions = argc > given ? std::atoi(argv[given]) : 20;
  if ((what != "send" && what != "stream" && !reduces) || size < 2 || repetitions < 1) {
    fmt::print(stderr, "transport_bench send|stream|all_reduce N [repetitions]\n");
    return 2;
  }
  std::string folder = "/tmp/troupe-bench-XXXXXX";
  if (!::mkdtemp(folder.data())) return 1;
  int worst = 0;
  {
    test::Processes ranks(size, [&](int rank, Store& store) {
      if (reduces) return all_reduce(rank, size, store, folder, repetitions);
      return what == "send" ? send(rank, store, folder, repetitions, 1, 1)
                            : send(rank, store, folder, repetitions, 32, 2);
    });
    for (int rank = 0; rank < size; ++rank) worst = std::max(worst, std::abs(ranks.wait(rank)));
  }
  std::filesystem::remove_all(folder);
  return worst;
}

// Tensors between processes of this host against what bounds them, pairs interleaved, results
// checked first. Prints "NAME: milliseconds milliseconds ..." a line.
//
//   transport_bench send [repetitions]         16 MiB to another process and its answer: shared
//                                              memory, memcpy of one thread; Gloo, Gloo alone
//   transport_bench stream [repetitions]       the same, a tensor of 32 that follow each other
//
// Everything over Gloo goes through loopback.

#include <fmt/format.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/transport/exchange.h"
#include "runtime/transport/transport.h"
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

struct Transports {
  std::unique_ptr<Communicator> shm, gloo;
  std::shared_ptr<gloo::rendezvous::Context> alone;

  Transports(Store& store, int rank, int size, const std::string& folder) {
    TransportGroup group{.store = store, .rank = rank, .size = size, .name = "shm"};
    shm = std::move(transport_named("shm").connect(group).value());
    group.name = "gloo";
    gloo = std::move(transport_named("gloo").connect(group).value());
    auto device = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr("127.0.0.1"));
    gloo::rendezvous::FileStore files(folder);
    alone = std::make_shared<gloo::rendezvous::Context>(rank, size);
    alone->connectFullMesh(files, device);
  }
};

constexpr std::size_t tensor_bytes = std::size_t{16} << 20;
const TensorMeta tensor_meta{.shape = {static_cast<std::int64_t>(tensor_bytes / 4)},
                             .dtype = DType::f32,
                             .layout = Layout::row_major};

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
  if (ranks.rank() == 0)
    send_answered(ranks, 1, tensor, count, ahead);
  else
    answer(ranks, 0, tensor_meta, count,
           [&](const Tensor& came) { check_some(came, tensor, "send"); });
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
  Transports transports(store, rank, 2, folder);
  Tensor tensor = Tensor::zeros({tensor_bytes / 4}), copy = tensor.clone();
  Readings readings;
  const std::vector<std::pair<std::string, std::function<void()>>> kinds{
      {"memcpy",
       [&] {
         for (int j = 0; j < count && rank == 0; ++j)
           std::memcpy(copy.raw(), tensor.raw(), tensor.bytes());
       }},
      {"shm", [&] { send_ours(*transports.shm, tensor, count, ahead); }},
      {"gloo", [&] { send_ours(*transports.gloo, tensor, count, ahead); }},
      {"gloo alone", [&] { send_alone(*transports.alone, tensor, copy, count, ahead); }}};
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

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const int repetitions = argc > 2 ? std::atoi(argv[2]) : 20;
  if ((what != "send" && what != "stream") || repetitions < 1) {
    fmt::print(stderr, "transport_bench send|stream [repetitions]\n");
    return 2;
  }
  std::string folder = "/tmp/troupe-bench-XXXXXX";
  if (!::mkdtemp(folder.data())) return 1;
  int worst = 0;
  {
    test::Processes ranks(2, [&](int rank, Store& store) {
      return what == "send" ? send(rank, store, folder, repetitions, 1, 1)
                            : send(rank, store, folder, repetitions, 32, 2);
    });
    for (int rank = 0; rank < 2; ++rank) worst = std::max(worst, std::abs(ranks.wait(rank)));
  }
  std::filesystem::remove_all(folder);
  return worst;
}

// A CUDA runtime without a device: streams, events, copies, launches and linear graphs run on one
// thread of the CPU in an order drawn from a seed, each stream in its own order; and what is not
// ordered by an event or a wait is reported, whatever order was drawn (cuda_on_cpu.h).
#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "cuda_on_cpu.h"
#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

namespace {
using Clock = std::vector<std::uint32_t>;  // of each stream: how many operations come before
void join(Clock& a, const Clock& b) {
  if (a.size() < b.size()) a.resize(b.size());
  for (std::size_t i = 0; i < b.size(); ++i) a[i] = std::max(a[i], b[i]);
}
struct Op {
  std::uint32_t stream = 0, index = 0;
  Clock after;
};
struct Task {
  std::function<void()> run;
  std::function<bool()> may;
  std::uint32_t op = 0;
};
struct Mark {
  Clock clock;
  bool done = true;
};  // one recording of an event
}  // namespace
struct CUstream_st {
  std::uint32_t id = 0;
  std::deque<Task> tasks;
  Clock clock;
  CUgraph_st* capture = nullptr;
  bool busy = false;
};
struct CUevent_st {
  std::shared_ptr<Mark> mark = std::make_shared<Mark>();
};
struct CUgraph_st {
  std::vector<std::function<void()>> nodes;
};
struct CUgraphExec_st {
  std::vector<std::function<void()>> nodes;
};

namespace {
struct Device {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<cudaStream_t> streams;
  std::deque<Op> ops{{}, {}};  // 0: nobody; 1: the host
  Clock host;                  // what a thread of the host has seen done
  int waiting = 0;             // threads of the host that wait for something
  unsigned seed = std::getenv("CUDA_ON_CPU_SEED") ? std::atoi(std::getenv("CUDA_ON_CPU_SEED")) : 0;
  bool lazy = seed % 2;  // does nothing before somebody waits
  std::mt19937 random{seed};
  std::map<void*, std::size_t> memory, pinned;
  std::thread thread;
  bool ends = false;

  static bool comes_before(std::uint32_t a, std::uint32_t b);
  Device() {
    cuda_on_cpu::options().seed = seed;
    cuda_on_cpu::before = &comes_before;
    thread = std::thread([this] { work(); });
  }
  ~Device() {
    {
      std::lock_guard l(mutex);
      ends = true;
    }
    changed.notify_all();
    thread.join();
    std::fprintf(stderr, "cuda_on_cpu: %zu operations, %d errors\n", ops.size() - 2,
                 cuda_on_cpu::errors());
  }
  void work();
  std::uint32_t number(cudaStream_t s) {  // with the lock
    join(s->clock, host);
    if (s->clock.size() <= s->id) s->clock.resize(s->id + 1);
    ops.push_back({s->id, s->clock[s->id]++, s->clock});
    return std::uint32_t(ops.size() - 1);
  }
  void push(cudaStream_t s, std::function<void()> run, std::function<bool()> may = {}) {
    std::lock_guard l(mutex);
    if (s->capture) return s->capture->nodes.push_back(std::move(run));
    s->tasks.push_back({std::move(run), std::move(may), number(s)});
    changed.notify_all();
  }
  template <class F>
  void wait(F done) {
    std::unique_lock l(mutex);
    ++waiting;
    changed.notify_all();
    changed.wait(l, done);
    --waiting;
  }
};
Device& device() {
  static Device d;
  return d;
}
}  // namespace

namespace {
bool Device::comes_before(std::uint32_t a, std::uint32_t b) {
  if (a <= 1 || b <= 1) return true;
  Device& d = device();
  std::lock_guard l(d.mutex);
  const Op &x = d.ops[a], &y = d.ops[b];
  return x.stream < y.after.size() && x.index < y.after[x.stream];
}
void Device::work() {
  std::unique_lock l(mutex);
  for (;;) {
    std::vector<cudaStream_t> can;
    if (!lazy || waiting > 0 || ends)
      for (auto* s : streams)
        if (!s->tasks.empty() && (!s->tasks.front().may || s->tasks.front().may()))
          can.push_back(s);
    if (can.empty()) {
      if (ends) return;
      changed.wait(l);
      continue;
    }
    cudaStream_t s = can[random() % can.size()];
    Task task = std::move(s->tasks.front());
    s->busy = true;
    s->tasks.pop_front();
    l.unlock();
    cuda_on_cpu::begin_operation(task.op);
    task.run();
    l.lock();
    s->busy = false;
    changed.notify_all();
  }
}
void* get_memory(std::size_t bytes, bool host) {
  void* p = std::aligned_alloc(512, (bytes + 4096 + 511) / 512 * 512);
  std::memset(p, 0xff, bytes);  // NaNs
  cuda_on_cpu::memory_begins(p, bytes);
  if (host) {
    cuda_on_cpu::begin_operation(1);
    cuda_on_cpu::wrote(p, bytes);
  }
  return p;
}
thread_local cudaError_t last = cudaSuccess;
bool null(cudaStream_t s) {
  if (s) return false;
  cuda_on_cpu::report("the null stream is used");
  return true;
}
}  // namespace

extern "C" {
#define API cudaError_t CUDARTAPI
API cudaMalloc(void** p, size_t n) {
  *p = get_memory(n, false);
  std::lock_guard l(device().mutex);
  device().memory[*p] = n;
  return cudaSuccess;
}
API cudaMallocHost(void** p, size_t n) {
  *p = get_memory(n, true);
  std::lock_guard l(device().mutex);
  device().pinned[*p] = n;
  return cudaSuccess;
}
API cudaDeviceSynchronize() {
  Device& d = device();
  d.wait([&] {
    for (auto* s : d.streams)
      if (s->busy || !s->tasks.empty()) return false;
    return true;
  });
  std::lock_guard l(d.mutex);
  for (auto* s : d.streams) join(d.host, s->clock);
  return cudaSuccess;
}
API cudaFree(void* p) {
  cudaDeviceSynchronize();
  cuda_on_cpu::memory_ends(p);
  std::free(p);
  return cudaSuccess;
}
API cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) {
  Device& d = device();
  std::lock_guard l(d.mutex);
  *s = new CUstream_st{std::uint32_t(d.streams.size())};
  d.streams.push_back(*s);
  return cudaSuccess;
}
API cudaStreamSynchronize(cudaStream_t s) {
  Device& d = device();
  d.wait([&] { return !s->busy && s->tasks.empty(); });
  std::lock_guard l(d.mutex);
  join(d.host, s->clock);
  return cudaSuccess;
}
API cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) {
  *e = new CUevent_st;
  return cudaSuccess;
}
API cudaEventDestroy(cudaEvent_t e) {
  delete e;
  return cudaSuccess;
}
API cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  if (null(s)) return last = cudaErrorInvalidValue;
  auto mark = std::make_shared<Mark>();
  {
    std::lock_guard l(device().mutex);
    mark->clock = s->clock;
    join(mark->clock, device().host);
    mark->done = false;
    e->mark = mark;
  }
  device().push(s, [mark] {
    std::lock_guard l(device().mutex);
    mark->done = true;
  });
  return cudaSuccess;
}
API cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  auto mark = e->mark;
  device().push(
      s, [] {}, [mark] { return mark->done; });
  std::lock_guard l(device().mutex);
  join(s->clock, mark->clock);
  return cudaSuccess;
}
API cudaEventQuery(cudaEvent_t e) {
  Device& d = device();
  std::lock_guard l(d.mutex);
  if (!e->mark->done) return cudaErrorNotReady;
  join(d.host, e->mark->clock);
  return cudaSuccess;
}
API cudaEventSynchronize(cudaEvent_t e) {
  Device& d = device();
  auto mark = e->mark;
  d.wait([&] { return mark->done; });
  std::lock_guard l(d.mutex);
  join(d.host, mark->clock);
  return cudaSuccess;
}
API cudaMemcpyAsync(void* to, const void* from, size_t n, cudaMemcpyKind, cudaStream_t s) {
  if (null(s)) return last = cudaErrorInvalidValue;
  device().push(s, [=] {
    cuda_on_cpu::read(from, n);
    cuda_on_cpu::wrote(to, n);
    std::memcpy(to, from, n);
  });
  return cudaSuccess;
}
API cudaMemsetAsync(void* to, int v, size_t n, cudaStream_t s) {
  device().push(s, [=] {
    cuda_on_cpu::wrote(to, n);
    std::memset(to, v, n);
  });
  return cudaSuccess;
}
API cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t f, void* data) {
  auto clock = s->clock;
  device().push(s, [=] {
    {
      std::lock_guard l(device().mutex);
      join(device().host, clock);
    }
    f(data);
  });
  return cudaSuccess;
}
API cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode) {
  s->capture = new CUgraph_st;
  return cudaSuccess;
}
API cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* g) {
  *g = s->capture;
  s->capture = nullptr;
  return cudaSuccess;
}
API cudaGraphInstantiate(cudaGraphExec_t* e, cudaGraph_t g, unsigned long long) {
  *e = new CUgraphExec_st{g->nodes};
  return cudaSuccess;
}
API cudaGraphLaunch(cudaGraphExec_t e, cudaStream_t s) {
  for (auto& n : e->nodes) device().push(s, n);
  return cudaSuccess;
}
const char* CUDARTAPI cudaGetErrorString(cudaError_t) { return "an error"; }
API cudaGetLastError() {
  auto e = last;
  last = cudaSuccess;
  return e;
}

API cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
API cudaGetDevice(int* d) {
  *d = 0;
  return cudaSuccess;
}
API cudaSetDevice(int d) { return d == 0 ? cudaSuccess : cudaErrorInvalidDevice; }
API cudaDriverGetVersion(int* v) {
  *v = CUDART_VERSION;
  return cudaSuccess;
}
API cudaRuntimeGetVersion(int* v) {
  *v = CUDART_VERSION;
  return cudaSuccess;
}
API cudaFreeHost(void* p) {
  cuda_on_cpu::memory_ends(p);
  std::free(p);
  return cudaSuccess;
}
API cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  *p = {};
  std::strcpy(p->name, "emulated");
  p->major = 9;
  p->multiProcessorCount = 132;
  return cudaSuccess;
}
const char* CUDARTAPI cudaGetErrorName(cudaError_t) { return "cudaError"; }
}
namespace cuda_on_cpu {
void launch(cudaStream_t stream, dim3 blocks, dim3 threads, const std::source_location& where,
            std::function<void()> kernel) {
  device().push(stream, [=, name = std::string(where.function_name())] {
    run({blocks, threads}, kernel, name.c_str());
  });
}
}  // namespace cuda_on_cpu

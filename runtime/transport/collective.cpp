#include "runtime/transport/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "runtime/transport/tree_sum.h"

namespace troupe::transport {
namespace {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

/// The pieces of one collective. All ranks cut alike: this depends on sizes and transport only.
class Cut {
 public:
  /// `largest` is the largest stretch that is cut: eight pieces of it or more can overlap, if they
  /// are worth a message.
  Cut(const Exchange& exchange, std::size_t largest) : window_(exchange.pace().window) {
    constexpr std::size_t smallest = std::size_t{64} << 10;
    piece_ = std::clamp(largest / 8 / smallest * smallest, smallest, exchange.pace().piece_bytes);
  }

  std::size_t window() const { return window_; }
  std::size_t count(std::size_t bytes) const { return (bytes + piece_ - 1) / piece_; }
  template <class Span>
  Span piece(Span whole, std::size_t index) const {
    const std::size_t begin = std::min(index * piece_, whole.size());
    return whole.subspan(begin, std::min(piece_, whole.size() - begin));
  }

 private:
  std::size_t piece_ = 0;
  const std::size_t window_;
};

/// What moves: everybody's contributions to each rank's chunk, and each rank's chunk to everybody.
struct Chunks {
  DType dtype;
  std::vector<ConstBytes> contributed;  ///< by this rank to rank r's sum; empty: nothing is summed
  Bytes mine;                           ///< this rank's chunk
  std::vector<Bytes> gathered;          ///< where rank r's chunk comes to; empty: nowhere
};

/// Moves Chunks piece by piece, so that sending, summing and receiving overlap.
class Mover {
 public:
  Mover(Exchange& exchange, int rank, int size, const Chunks& chunks)
      : exchange_(exchange),
        rank_(rank),
        size_(size),
        chunks_(chunks),
        largest_(largest(chunks)),
        cut_(exchange, largest_) {}

  void run() {
    const std::size_t count = cut_.count(largest_), window = cut_.window();
    for (std::size_t step = 0; step < count + 2 * window; ++step) {
      if (step < count) start(step);
      if (step >= window) finish_mine(step - window);
      if (step >= 2 * window) gather(step - 2 * window);
    }
    exchange_.finish();
  }

 private:
  static std::size_t largest(const Chunks& chunks) {
    std::size_t bytes = chunks.mine.size();
    for (const ConstBytes& chunk : chunks.contributed) bytes = std::max(bytes, chunk.size());
    for (const Bytes& chunk : chunks.gathered) bytes = std::max(bytes, chunk.size());
    return bytes;
  }
  template <class Span>
  Span piece(Span whole, std::size_t index) const {
    return cut_.piece(whole, index);
  }

  template <class Call>
  void each_peer(Call call) {  // beginning behind this rank, so that not all go to the same first
    for (int step = 1; step < size_; ++step) call((rank_ + step) % size_);
  }

  void start(std::size_t index) {
    const Bytes mine = piece(chunks_.mine, index);
    each_peer([&](int peer) {
      if (!chunks_.contributed.empty() && !mine.empty())
        exchange_.expect(peer, Exchange::partial, nullptr, mine.size());
      if (!chunks_.gathered.empty())
        if (const Bytes into = piece(chunks_.gathered[peer], index); !into.empty())
          exchange_.expect(peer, Exchange::final, into.data(), into.size());
    });
    each_peer([&](int peer) {
      if (chunks_.contributed.empty()) return;
      if (const ConstBytes part = piece(chunks_.contributed[peer], index); !part.empty())
        exchange_.send(peer, Exchange::partial, part.data(), part.size());
    });
  }

  void finish_mine(std::size_t index) {
    const Bytes mine = piece(chunks_.mine, index);
    if (mine.empty()) return;
    if (!chunks_.contributed.empty()) {
      std::vector<const std::byte*> parts(size_);
      parts[rank_] = piece(chunks_.contributed[rank_], index).data();
      each_peer([&](int peer) { parts[peer] = exchange_.take(peer, Exchange::partial); });
      tree_sum(chunks_.dtype, parts, mine.data(), mine.size() / size_of(chunks_.dtype));
      each_peer([&](int peer) { exchange_.give_back(peer, Exchange::partial); });
    }
    if (!chunks_.gathered.empty()) exchange_.send_to_all(Exchange::final, mine.data(), mine.size());
  }

  void gather(std::size_t index) {
    if (chunks_.gathered.empty()) return;
    each_peer([&](int peer) {
      if (piece(chunks_.gathered[peer], index).empty()) return;
      exchange_.take(peer, Exchange::final);
      exchange_.give_back(peer, Exchange::final);
    });
  }

  Exchange& exchange_;
  const int rank_, size_;
  const Chunks& chunks_;
  const std::size_t largest_;
  const Cut cut_;
};

/// The chunks of `size` ranks, which differ by whole cache lines only; the last ones may be empty.
std::vector<Bytes> lines_of(Bytes whole, int size) {
  constexpr std::size_t line = 64;
  const std::size_t lines = (whole.size() + line - 1) / line;
  const std::size_t step = (lines + size - 1) / size * line;
  std::vector<Bytes> chunks;
  for (int rank = 0; rank < size; ++rank) {
    const std::size_t begin = std::min(rank * step, whole.size());
    chunks.push_back(whole.subspan(begin, std::min(step, whole.size() - begin)));
  }
  return chunks;
}

std::vector<Bytes> equal_parts(Bytes whole, int size) {
  std::vector<Bytes> parts;
  parts.reserve(size);
  const std::size_t step = whole.size() / size;
  for (int rank = 0; rank < size; ++rank) parts.push_back(whole.subspan(rank * step, step));
  return parts;
}

/// A chain from the root on: every rank hands on what it got, so each link carries the bytes once.
void broadcast(Exchange& exchange, int root, int rank, int size, Bytes bytes) {
  const int place = (rank - root + size) % size;
  const int before = (rank - 1 + size) % size, behind = (rank + 1) % size;
  const Cut cut(exchange, bytes.size());
  const std::size_t count = cut.count(bytes.size()), window = cut.window();
  for (std::size_t step = 0; step < count + window; ++step) {
    if (place > 0 && step < count) {
      const Bytes into = cut.piece(bytes, step);
      exchange.expect(before, Exchange::final, into.data(), into.size());
    }
    if (step < window) continue;
    const Bytes next = cut.piece(bytes, step - window);
    if (place > 0) {
      exchange.take(before, Exchange::final);
      exchange.give_back(before, Exchange::final);
    }
    if (place < size - 1) exchange.send(behind, Exchange::final, next.data(), next.size());
  }
  exchange.finish();
}

}  // namespace

std::string to_string(const CollectiveCall& call) {
  switch (call.kind) {
    case CollectiveCall::Kind::broadcast:
      return fmt::format("broadcast of {} from rank {}", to_string(call.meta), call.root);
    case CollectiveCall::Kind::all_reduce:
      return fmt::format("all_reduce of {}", to_string(call.meta));
    case CollectiveCall::Kind::all_gather:
      return fmt::format("all_gather of {}", to_string(call.meta));
    case CollectiveCall::Kind::reduce_scatter:
      return fmt::format("reduce_scatter of {}", to_string(call.meta));
  }
  return fmt::format("unknown collective {}", static_cast<int>(call.kind));
}

void run_collective(Exchange& exchange, const CollectiveCall& call, int rank, int size,
                    const Tensor& in, const Tensor& out) {
  exchange.meet();
  const Bytes source(in.raw(), in.bytes()), target(out.raw(), out.bytes());
  Chunks chunks{.dtype = in.dtype(), .contributed = {}, .mine = {}, .gathered = {}};
  switch (call.kind) {
    case CollectiveCall::Kind::broadcast:
      return broadcast(exchange, call.root, rank, size, target);
    case CollectiveCall::Kind::all_reduce:
      chunks.gathered = lines_of(target, size);
      chunks.contributed.assign(chunks.gathered.begin(), chunks.gathered.end());
      chunks.mine = chunks.gathered[rank];
      break;
    case CollectiveCall::Kind::all_gather:
      chunks.gathered = equal_parts(target, size);
      chunks.mine = chunks.gathered[rank];
      if (!source.empty()) std::memmove(chunks.mine.data(), source.data(), source.size());
      break;
    case CollectiveCall::Kind::reduce_scatter: {
      const std::vector<Bytes> parts = equal_parts(source, size);
      chunks.contributed.assign(parts.begin(), parts.end());
      chunks.mine = target;
      break;
    }
  }
  Mover(exchange, rank, size, chunks).run();
}

}  // namespace troupe::transport

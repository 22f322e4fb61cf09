#pragma once
// "Processes" of a test in one process: bridges that hand messages over in memory, through the
// payloads' codecs, with delays that a seed picks. Between two processes the order is kept; between
// different pairs anything goes.

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <variant>
#include <vector>

#include "runtime/flow/bridge.h"

namespace troupe::testing {

/// What one process sends to another, in order.
class MemoryLink {
 public:
  using Message = std::variant<BridgeMessage, Error>;

  MemoryLink(const Graph& graph, std::uint32_t from, std::uint64_t seed)
      : graph_(graph), from_(from), random_(seed) {}
  ~MemoryLink() { close(); }

  void send(Message message) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(message));
    wake_.notify_one();
  }
  void open(Bridge::OnMessage on_message, Bridge::OnLost on_lost) {
    thread_ = std::jthread([this, on_message = std::move(on_message),
                            on_lost = std::move(on_lost)](const std::stop_token& stop) {
      while (auto message = next(stop))
        if (const auto* lost = std::get_if<Error>(&*message))
          on_lost(from_, *lost);
        else
          on_message(from_, received(std::get<BridgeMessage>(std::move(*message))));
    });
  }
  void close() {
    if (thread_.joinable()) thread_ = {};
  }

 private:
  std::optional<Message> next(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    if (!wake_.wait(lock, stop, [&] { return !queue_.empty(); })) return {};
    Message message = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    if (random_() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random_() % 300));
    return message;
  }
  BridgeMessage received(BridgeMessage message) {
    if (auto* packet = std::get_if<Packet>(&message)) packet->payload = through_bytes(*packet);
    return message;
  }

  /// The payload as another process receives it.
  std::shared_ptr<const void> through_bytes(const Packet& packet) {
    const Graph::Edge& edge = graph_.edges()[packet.header.edge];
    WireWriter writer;
    edge.codec.write(packet.payload.get(), writer);
    for (const Tensor& tensor : writer.tensors)
      EXPECT_EQ(tensor.device(), edge.options.device) << graph_.edge_name(packet.header.edge);
    WireReader reader(writer.bytes);
    auto payload = edge.codec.read(reader);
    const auto expected = reader.take_tensors();
    for (std::size_t i = 0; i < expected.size(); ++i) *expected[i].place = writer.tensors[i];
    return payload;
  }

  const Graph& graph_;
  std::uint32_t from_;
  std::mt19937_64 random_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<Message> queue_;
  std::jthread thread_;
};

/// links[from][to].
using MemoryLinks = std::vector<std::vector<std::unique_ptr<MemoryLink>>>;

inline std::shared_ptr<MemoryLinks> make_memory_links(const Graph& graph, std::uint32_t processes,
                                                      std::uint64_t seed) {
  auto links = std::make_shared<MemoryLinks>(processes);
  for (std::uint32_t from = 0; from < processes; ++from)
    for (std::uint32_t to = 0; to < processes; ++to)
      (*links)[from].push_back(
          std::make_unique<MemoryLink>(graph, from, seed * 64 + from * std::uint64_t{8} + to));
  return links;
}

class MemoryBridge final : public Bridge {
 public:
  MemoryBridge(std::shared_ptr<MemoryLinks> links, std::uint32_t here)
      : links_(std::move(links)), here_(here) {}

  void open(OnMessage on_message, OnLost on_lost) override {
    for (auto& row : *links_) row[here_]->open(on_message, on_lost);
  }
  void close() override {
    for (auto& row : *links_) row[here_]->close();
  }
  void send(std::uint32_t to, BridgeMessage message) override { link(to).send(std::move(message)); }

 private:
  MemoryLink& link(std::uint32_t to) { return *(*links_)[here_][to]; }

  std::shared_ptr<MemoryLinks> links_;
  std::uint32_t here_;
};

}  // namespace troupe::testing

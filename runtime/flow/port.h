#pragma once
// Ports are the typed ends of edges. An edge has `slots`: the sender needs a free slot to send, and
// gets it back as a credit when the receiver releases the message. So the number of messages on an
// edge is bounded, and the sender still holds every message in flight and can send it again.

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <typeindex>
#include <vector>

#include "runtime/error.h"
#include "runtime/flow/header.h"

namespace troupe {

class Actor;
class Work;
class RuntimeAccess;  // runtime/flow/runtime_access.h

/// Whether a port works without an edge.
enum class Connection : std::uint8_t { required, optional };

/// A message on an edge: a header and a handle to the payload. A copy of a Packet copies no tensor
/// data.
struct Packet {
  Header header;
  std::shared_ptr<const void> payload;
  /// Of the sender's stream: the payload is complete when it has passed. Null: it is complete.
  std::shared_ptr<Work> fence = {};
};

/// A slot that the receiver returns to the sender.
struct Credit {
  std::uint32_t edge = 0;
  std::uint32_t incarnation = 0;  ///< of the sender that the slot belongs to
  std::uint32_t slot = 0;

  static void members(auto& self, auto& visit) {
    visit(self.edge);
    visit(self.incarnation);
    visit(self.slot);
  }
};

/// The receiving end, without the payload's type.
class InputPort {
 public:
  InputPort(Actor* owner, std::string name, std::type_index type, Connection connection);
  InputPort(const InputPort&) = delete;
  InputPort& operator=(const InputPort&) = delete;

  const std::string& name() const { return name_; }
  std::type_index type() const { return type_; }
  bool connected() const { return !edges_.empty(); }
  std::size_t edge_count() const { return edges_.size(); }
  bool lacks_edge() const { return !connected() && connection_ == Connection::required; }
  /// A message is queued.
  bool ready() const { return !queue_.empty(); }
  /// Every slot of every edge is taken: no message can arrive before one is released.
  bool full() const;
  const Header& header() const { return queue_.front().header; }

 protected:
  Packet take_packet();
  void release_packet(const Header& header);

 private:
  friend class RuntimeAccess;
  void attach(std::uint32_t edge, std::uint32_t slots);
  void deliver(Packet&& packet);
  void sender_replaced(std::uint32_t edge, std::uint32_t incarnation);

  struct Edge {
    std::uint32_t id = 0;
    std::uint32_t slots = 0;
    std::uint32_t incarnation = 0;
    std::optional<MessageKey> last;  ///< newest key accepted
  };
  /// A message that was delivered and not released yet, with the slot to return.
  struct Unreleased {
    MessageKey key;
    Credit credit;
    bool orphaned = false;  ///< its sender was replaced: the slot is not returned
  };
  Edge& edge(std::uint32_t id);

  Actor* owner_;
  std::string name_;
  std::type_index type_;
  Connection connection_;
  std::vector<Edge> edges_;
  std::deque<Packet> queue_;
  std::vector<Unreleased> unreleased_;
  std::uint64_t dropped_ = 0;
};

/// A message taken from an Input. The receiver keeps it as long as it needs it, then releases it.
template <class T>
struct Held {
  Header header;
  std::shared_ptr<const T> payload;

  const T& operator*() const { return *payload; }
  const T* operator->() const { return payload.get(); }
};

/// Receives messages of type T from any number of edges, in order of arrival.
///
///     class Averager : public Actor { Input<Gradient> gradients{this, "gradients"}; … };
template <class T>
class Input : public InputPort {
 public:
  Input(Actor* owner, std::string name, Connection connection = Connection::required)
      : InputPort(owner, std::move(name), typeid(T), connection) {}

  /// The oldest message; its slot stays occupied until `release`. The actor's stream, if it has
  /// one, waits for the payload: what the actor does with it on that stream comes after.
  Held<T> take() {
    Packet packet = take_packet();
    return {packet.header, std::static_pointer_cast<const T>(std::move(packet.payload))};
  }
  /// Returns the slot to the sender. Tensors of the message that the receiver keeps from then on
  /// are in addition to the memory that the edge bounds.
  void release(const Held<T>& held) { release_packet(held.header); }
};

/// The sending end, without the payload's type.
class OutputPort {
 public:
  OutputPort(Actor* owner, std::string name, std::type_index type, Connection connection);
  OutputPort(const OutputPort&) = delete;
  OutputPort& operator=(const OutputPort&) = delete;

  const std::string& name() const { return name_; }
  std::type_index type() const { return type_; }
  bool connected() const { return !edges_.empty(); }
  bool lacks_edge() const { return !connected() && connection_ == Connection::required; }
  /// Every edge of the port has `count` free slots. True for a port without edges.
  bool has_slot(std::uint32_t count = 1) const;

 protected:
  void send_packet(Header header, const std::shared_ptr<const void>& payload);

 private:
  friend class RuntimeAccess;
  void attach(std::uint32_t edge, std::uint32_t slots);
  void credit(const Credit& credit);
  void set_fence(const Header& header, const std::shared_ptr<Work>& fence);
  std::vector<Packet> unreleased(std::uint32_t edge) const;

  struct Edge {
    std::uint32_t id = 0;
    std::optional<MessageKey> last;            ///< newest key sent by this incarnation
    std::vector<std::optional<Packet>> slots;  ///< occupied ones hold the sent message
    std::uint32_t free = 0;
  };
  Actor* owner_;
  std::string name_;
  std::type_index type_;
  Connection connection_;
  std::vector<Edge> edges_;
  std::uint32_t incarnation_ = 0;
};

/// Sends messages of type T to every edge that is connected to it.
template <class T>
class Output : public OutputPort {
 public:
  Output(Actor* owner, std::string name, Connection connection = Connection::required)
      : OutputPort(owner, std::move(name), typeid(T), connection) {}

  /// Requires has_slot(). `about` gives key, samples and counts; the port sets the other fields.
  /// The runtime dispatches the message after the action has returned.
  void send(const Header& about, T value) {
    send_packet(about, std::make_shared<const T>(std::move(value)));
  }
};

}  // namespace troupe

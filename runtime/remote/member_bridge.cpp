#include "runtime/remote/member_bridge.h"

#include <fmt/format.h>

#include <atomic>
#include <deque>
#include <mutex>

#include "runtime/remote/flow_wire.h"
#include "runtime/remote/frames.h"

namespace troupe {
namespace {

using remote::FlowMessage;
using remote::Frames;
using remote::PacketOnWire;

/// What comes from one process, in its order: a message waits until its tensors are there, and
/// those behind it wait for it.
class Lane : public std::enable_shared_from_this<Lane> {
 public:
  Lane(std::uint32_t from, std::shared_ptr<Bulk> bulk, const Graph& graph)
      : from_(from), bulk_(std::move(bulk)), graph_(graph) {}

  void open(std::shared_ptr<BridgeListener> listener) {
    const std::lock_guard lock(mutex_);
    listener_ = std::move(listener);
  }
  void close() {
    const std::lock_guard lock(mutex_);  // a delivery under way ends first
    listener_.reset();
    waiting_.clear();
  }

  void take(FlowMessage message) {
    if (closed()) return;  // said to actors that have ended
    auto entry = std::make_shared<Entry>();
    entry->message = std::move(message);
    std::vector<ReceivePtr> receives;
    if (const auto* packet = std::get_if<PacketOnWire>(&entry->message)) {
      std::uint64_t tag = packet->tag;
      for (const auto& meta : packet->tensors)
        if (meta) receives.push_back(bulk_->receive(static_cast<int>(from_), tag++, *meta));
    }
    entry->receives = receives;
    entry->missing = receives.size();
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(entry);
    }
    for (const ReceivePtr& receive : receives)
      receive->then([self = weak_from_this(), entry](const Status& status) {
        if (const auto lane = self.lock()) lane->arrived(*entry, status);
      });
    if (receives.empty()) deliver();
  }

  void lost(const Error& reason) {
    const std::lock_guard lock(mutex_);
    if (listener_) listener_->on_lost(from_, reason);
  }

 private:
  bool closed() {
    const std::lock_guard lock(mutex_);
    return !listener_;
  }

  struct Entry {
    FlowMessage message;
    std::vector<ReceivePtr> receives;
    std::atomic<std::size_t> missing{0};
  };

  void arrived(Entry& entry, const Status& status) {
    if (!status) return lost(status.error());
    if (entry.missing.fetch_sub(1) == 1) deliver();
  }

  // Under the lock: one at a time, and none after close().
  void deliver() {
    const std::lock_guard lock(mutex_);
    while (listener_ && !waiting_.empty() && waiting_.front()->missing == 0) {
      const auto entry = std::move(waiting_.front());
      waiting_.pop_front();
      try {
        hand_over(*entry);
      } catch (const Error& error) {
        listener_->on_lost(from_, error);
      }
    }
  }

  void hand_over(Entry& entry) {
    if (auto* credit = std::get_if<RemoteCredit>(&entry.message)) {
      listener_->on_credit(from_, *credit);
    } else if (auto* note = std::get_if<Note>(&entry.message)) {
      listener_->on_note(from_, std::move(*note));
    } else {
      listener_->on_packet(from_, assemble(entry));
    }
  }

  RemotePacket assemble(Entry& entry) const {
    auto& wire = std::get<PacketOnWire>(entry.message);
    if (wire.header.edge >= graph_.edges().size() || !graph_.edges()[wire.header.edge].codec)
      throw Error(ErrorCode::bad_message,
                  fmt::format("process {} sent a message on edge {}, which cannot carry any", from_,
                              wire.header.edge),
                  "start all processes from the same program and options");
    Parts parts{.numbers = std::move(wire.numbers), .texts = std::move(wire.texts)};
    auto receive = entry.receives.begin();
    for (const auto& meta : wire.tensors)
      parts.tensors.push_back(meta ? (*receive++)->tensor() : Tensor());
    const PayloadCodec& codec = graph_.edges()[wire.header.edge].codec;
    return {wire.node, wire.generation, {wire.header, codec.put_together(std::move(parts))}};
  }

  const std::uint32_t from_;
  const std::shared_ptr<Bulk> bulk_;
  const Graph& graph_;  ///< looked at until close() only
  std::mutex mutex_;
  std::shared_ptr<BridgeListener> listener_;  ///< null before open() and after close()
  std::deque<std::shared_ptr<Entry>> waiting_;
};

/// Whether a run cannot end without it, and it may be heard twice.
bool is_last_word(const Note& note) {
  return std::holds_alternative<EndRun>(note) || std::holds_alternative<RunFailed>(note) ||
         std::holds_alternative<ProcessEnded>(note);
}

/// Messages to each process by frames, as long as the bulk plane works. When somebody is lost it
/// ends in one process after the other, with frames that were not read: how the run ends is then
/// said again by the control plane.
class Voice {
 public:
  Voice(Member& member, std::vector<std::unique_ptr<Frames>> frames)
      : member_(member), frames_(std::move(frames)), last_words_(frames_.size()) {}

  // All messages to one process take one way, which keeps their order.
  void say(std::uint32_t to, std::string body) {
    if (frames_[to] && !somebody_is_lost_) return frames_[to]->send(body);
    member_.send(static_cast<int>(to), std::move(body));
  }
  void say_last(std::uint32_t to, std::string body) {
    const std::lock_guard lock(mutex_);
    if (frames_[to] && !somebody_is_lost_) last_words_[to].push_back(body);
    say(to, std::move(body));
  }
  void without_frames() {
    const std::lock_guard lock(mutex_);
    somebody_is_lost_ = true;
    for (std::size_t to = 0; to < last_words_.size(); ++to)
      for (std::string& body : std::exchange(last_words_[to], {}))
        member_.send(static_cast<int>(to), std::move(body));
  }
  const std::vector<std::unique_ptr<Frames>>& frames() const { return frames_; }

 private:
  Member& member_;
  const std::vector<std::unique_ptr<Frames>> frames_;  ///< by rank; null: by the control plane
  std::atomic<bool> somebody_is_lost_{false};
  std::mutex mutex_;
  std::vector<std::vector<std::string>> last_words_;  ///< by rank, that went by frames
};

/// What the member calls. It may do so when the bridge is gone: to other processes, this run ends a
/// moment later.
struct Arrivals {
  std::shared_ptr<Bulk> bulk;
  int rank = 0;
  std::vector<std::shared_ptr<Lane>> lanes;  ///< by rank
  std::unique_ptr<Voice> voice;

  void on_message(int from, const std::string& body) {
    Lane& lane = *lanes[static_cast<std::size_t>(from)];
    try {
      lane.take(remote::decode(body));
    } catch (const Error& error) {
      lane.lost(error);
    } catch (const std::exception& error) {
      lane.lost(Error(ErrorCode::bad_message,
                      fmt::format("a message of process {}: {}", from, error.what())));
    }
  }

  // Without its coordinator, or given up by the others, this process is as good as alone.
  void on_lost(const PeerLost& peer) {
    const Error error(ErrorCode::peer_lost, to_string(peer),
                      "go on with the same command and --restart auto");
    voice->without_frames();
    bulk->abort(error);
    const bool other = peer.rank != PeerLost::coordinator && peer.rank != rank;
    if (other) return lanes[static_cast<std::size_t>(peer.rank)]->lost(error);
    for (const auto& lane : lanes) lane->lost(error);
  }
};

class MemberBridge final : public Bridge {
 public:
  MemberBridge(Member& member, std::shared_ptr<Bulk> bulk, const Graph& graph)
      : member_(member),
        bulk_(std::move(bulk)),
        graph_(graph),
        arrivals_(std::make_shared<Arrivals>()),
        tags_(static_cast<std::size_t>(member.size())) {
    arrivals_->bulk = bulk_;
    arrivals_->rank = member.rank();
    std::vector<std::unique_ptr<Frames>> frames;
    for (std::uint32_t rank = 0; rank < tags_.size(); ++rank) {
      arrivals_->lanes.push_back(std::make_shared<Lane>(rank, bulk_, graph));
      const Bulk::Route& route = bulk_->route(static_cast<int>(rank));
      const bool quick = static_cast<int>(rank) != member.rank() && route.shares_memory;
      frames.push_back(quick ? std::make_unique<Frames>(*route.communicator, route.rank) : nullptr);
    }
    arrivals_->voice = std::make_unique<Voice>(member, std::move(frames));
  }

  void open(std::shared_ptr<BridgeListener> listener) override {
    for (const auto& lane : arrivals_->lanes) lane->open(listener);
    member_.open(
        [to = arrivals_](int from, const std::string& body) { to->on_message(from, body); },
        [to = arrivals_](const PeerLost& peer) { to->on_lost(peer); });
    const auto& frames = arrivals_->voice->frames();
    for (std::uint32_t rank = 0; rank < frames.size(); ++rank)
      if (frames[rank]) open_frames(*frames[rank], rank);
  }

  void close() override {
    for (const auto& frames : arrivals_->voice->frames())
      if (frames) frames->close();
    for (const auto& lane : arrivals_->lanes) lane->close();
  }

  void send(std::uint32_t to, RemotePacket remote) override {
    const Header& header = remote.packet.header;
    Parts parts = graph_.edges()[header.edge].codec.take_apart(remote.packet.payload.get());
    PacketOnWire wire{.node = remote.node,
                      .generation = remote.generation,
                      .header = header,
                      .numbers = std::move(parts.numbers),
                      .texts = std::move(parts.texts)};
    std::uint64_t count = 0;
    wire.header.length = 0;  // an actor may send on with the header of what it received
    for (const Tensor& tensor : parts.tensors) {
      wire.tensors.push_back(tensor.defined() ? std::optional(TensorMeta::of(tensor))
                                              : std::nullopt);
      if (!tensor.defined()) continue;
      wire.header.length += tensor.bytes();
      ++count;
    }
    std::uint64_t tag = wire.tag = tags_[to].fetch_add(count);
    for (Tensor& tensor : parts.tensors)
      if (tensor.defined()) bulk_->send(static_cast<int>(to), tag++, std::move(tensor));
    arrivals_->voice->say(to, remote::encode(wire));
  }
  void send(std::uint32_t to, RemoteCredit credit) override {
    arrivals_->voice->say(to, remote::encode(credit));
  }
  void send(std::uint32_t to, Note note) override {
    if (is_last_word(note)) return arrivals_->voice->say_last(to, remote::encode(note));
    arrivals_->voice->say(to, remote::encode(note));
  }

 private:
  void open_frames(Frames& frames, std::uint32_t rank) {
    const std::weak_ptr<Arrivals> to = arrivals_;
    frames.open(
        [to, rank](const std::string& body) {
          if (const auto open = to.lock()) open->on_message(static_cast<int>(rank), body);
        },
        [to, rank](const Error& error) {
          if (const auto open = to.lock()) open->lanes[rank]->lost(error);
        });
  }

  Member& member_;
  const std::shared_ptr<Bulk> bulk_;
  const Graph& graph_;
  const std::shared_ptr<Arrivals> arrivals_;
  std::vector<std::atomic<std::uint64_t>> tags_;  ///< next one, by rank
};

}  // namespace

std::shared_ptr<Bridge> make_member_bridge(Member& member, std::shared_ptr<Bulk> bulk,
                                           const Graph& graph) {
  return std::make_shared<MemberBridge>(member, std::move(bulk), graph);
}

}  // namespace troupe

#include "runtime/remote/member_bridge.h"

#include <fmt/format.h>

#include <atomic>
#include <deque>
#include <future>
#include <map>
#include <mutex>

#include "runtime/remote/flow_wire.h"
#include "runtime/remote/shm_message_channel.h"

namespace troupe {
namespace {

using remote::FlowMessage;
using remote::PacketOnWire;
using remote::ShmMessageChannel;

/// What comes from one process, in its order: a message waits until its tensors are there, and
/// those behind it wait for it.
class Lane : public std::enable_shared_from_this<Lane> {
 public:
  Lane(std::uint32_t from, Bulk& bulk, const Graph& graph)
      : from_(from), bulk_(bulk), graph_(graph) {}

  void open(std::shared_ptr<BridgeListener> listener) {
    const std::lock_guard lock(mutex_);
    listener_ = std::move(listener);
  }
  void close() {
    const std::lock_guard lock(mutex_);  // a delivery under way ends first
    listener_.reset();
    waiting_.clear();
  }

  /// What carries a packet to this process, and is not done yet: its slot is not free before.
  void sent(const Header& header, std::vector<WorkPtr> works) {
    const std::lock_guard lock(mutex_);
    sending_[{header.edge, header.slot}] = std::move(works);
  }

  void take(FlowMessage message) {
    if (closed()) return;  // said to actors that have ended
    auto entry = std::make_shared<Entry>();
    entry->message = std::move(message);
    if (const auto* remote = std::get_if<RemoteCredit>(&entry->message))
      return take_credit(entry, remote->credit);
    std::vector<ReceivePtr> receives;
    if (const auto* packet = std::get_if<PacketOnWire>(&entry->message)) {
      std::uint64_t tag = packet->tag;
      for (const auto& meta : packet->tensors)
        if (meta) receives.push_back(bulk_.receive(static_cast<int>(from_), tag++, *meta));
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

  // A transport's word that a tensor has come goes another way than the credit, and may be behind
  // it: until then the tensor is held here, and a slot filled anew would hold a second one.
  void take_credit(const std::shared_ptr<Entry>& entry, const Credit& credit) {
    std::vector<WorkPtr> works;
    {
      const std::lock_guard lock(mutex_);
      if (auto held = sending_.extract({credit.edge, credit.slot}))
        works = std::move(held.mapped());
      entry->missing = works.size();
      waiting_.push_back(entry);
    }
    for (const WorkPtr& work : works)  // also one that has failed holds nothing any more
      work->then([self = weak_from_this(), entry](const Status&) {
        if (const auto lane = self.lock()) lane->arrived(*entry, success());
      });
    if (works.empty()) deliver();
  }

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
    } else if (auto* note = std::get_if<RunMessage>(&entry.message)) {
      listener_->on_run_message(from_, std::move(*note));
    } else {
      listener_->on_packet(from_, assemble(entry));
    }
  }

  RemotePacket assemble(Entry& entry) const {
    auto& wire = std::get<PacketOnWire>(entry.message);
    if (wire.header.edge >= graph_.edges().size() || !graph_.edges()[wire.header.edge].codec)
      throw Error(ErrorCode::bad_message,
                  fmt::format("rank {} sent a message on edge {}, which cannot carry any", from_,
                              wire.header.edge),
                  "start all processes from the same program and options");
    Parts parts{.numbers = std::move(wire.numbers), .texts = std::move(wire.texts)};
    auto receive = entry.receives.begin();
    for (const auto& meta : wire.tensors)
      parts.tensors.push_back(meta ? (*receive++)->tensor() : Tensor());
    const PayloadCodec& codec = graph_.edges()[wire.header.edge].codec;
    return {wire.actor, wire.incarnation, {wire.header, codec.put_together(std::move(parts))}};
  }

  const std::uint32_t from_;
  Bulk& bulk_;
  const Graph& graph_;  ///< looked at until close() only
  std::mutex mutex_;
  std::shared_ptr<BridgeListener> listener_;  ///< null before open() and after close()
  std::deque<std::shared_ptr<Entry>> waiting_;
  /// By edge and slot; of packets that were not done at once.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<WorkPtr>> sending_;
};

/// Whether a run cannot end without it, and it may be heard twice.
bool is_last_word(const RunMessage& note) {
  return std::holds_alternative<EndRun>(note) || std::holds_alternative<RunFailed>(note) ||
         std::holds_alternative<ProcessEnded>(note);
}

/// Messages to each process by frames, as long as the bulk plane works. When somebody is lost it
/// ends in one process after the other, with frames that were not read: how the run ends is then
/// said again by the control plane.
class Voice {
 public:
  Voice(Member& member, std::vector<std::unique_ptr<ShmMessageChannel>> frames)
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
  const std::vector<std::unique_ptr<ShmMessageChannel>>& frames() const { return frames_; }

 private:
  Member& member_;
  const std::vector<std::unique_ptr<ShmMessageChannel>>
      frames_;  ///< by rank; null: by the control plane
  std::atomic<bool> somebody_is_lost_{false};
  std::mutex mutex_;
  std::vector<std::vector<std::string>> last_words_;  ///< by rank, that went by frames
};

/// All that a bridge sends and hears by.
struct Traffic {
  Traffic(Member& member, Bulk& bulk_plane, const Graph& of_run)
      : bulk(bulk_plane),
        graph(of_run),
        rank(member.rank()),
        tags(static_cast<std::size_t>(member.size())) {
    std::vector<std::unique_ptr<ShmMessageChannel>> frames;
    for (std::uint32_t peer = 0; peer < tags.size(); ++peer) {
      lanes.push_back(std::make_shared<Lane>(peer, bulk, graph));
      const Bulk::Route& route = bulk.route(static_cast<int>(peer));
      const bool quick = static_cast<int>(peer) != rank && route.shares_memory;
      frames.push_back(quick ? std::make_unique<ShmMessageChannel>(*route.communicator, route.rank)
                             : nullptr);
    }
    voice = std::make_unique<Voice>(member, std::move(frames));
  }

  void close() {
    for (const auto& frames : voice->frames())
      if (frames) frames->close();
    for (const auto& lane : lanes) lane->close();
  }

  void send(std::uint32_t to, const RemotePacket& remote) {
    const Header& header = remote.packet.header;
    Parts parts = graph.edges()[header.edge].codec.take_apart(remote.packet.payload.get());
    PacketOnWire wire{.actor = remote.actor,
                      .incarnation = remote.incarnation,
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
    std::uint64_t tag = wire.tag = tags[to].fetch_add(count);
    std::vector<WorkPtr> works;
    for (Tensor& tensor : parts.tensors)
      if (tensor.defined())
        works.push_back(bulk.send(static_cast<int>(to), tag++, std::move(tensor)));
    std::erase_if(works, [](const WorkPtr& work) { return work->done(); });
    if (!works.empty()) lanes[to]->sent(wire.header, std::move(works));  // before any credit for it
    voice->say(to, remote::encode(wire));
  }

  void on_message(int from, const std::string& body) {
    Lane& lane = *lanes[static_cast<std::size_t>(from)];
    try {
      lane.take(remote::decode(body));
    } catch (const Error& error) {
      lane.lost(error);
    } catch (const std::exception& error) {
      lane.lost(Error(ErrorCode::bad_message,
                      fmt::format("a message of rank {}: {}", from, error.what())));
    }
  }

  // Without its coordinator, or given up by the others, this process is as good as alone.
  void on_lost(const PeerLost& peer) {
    const Error error(ErrorCode::peer_lost, to_string(peer),
                      "go on with the same command and --restart auto");
    voice->without_frames();
    // Who has lost the coordinator may be the one that is lost, and does not know why.
    if (peer.rank == PeerLost::coordinator)
      bulk.abort(error);
    else
      bulk.fail(error);
    const bool other = peer.rank != PeerLost::coordinator && peer.rank != rank;
    if (other) return lanes[static_cast<std::size_t>(peer.rank)]->lost(error);
    for (const auto& lane : lanes) lane->lost(error);
  }

  Bulk& bulk;
  const Graph& graph;
  const int rank;
  std::vector<std::shared_ptr<Lane>> lanes;  ///< by rank
  std::unique_ptr<Voice> voice;
  std::vector<std::atomic<std::uint64_t>> tags;  ///< next one, by rank
};

/// Threads of the member, the bulk plane and the run's actors hold the traffic while they use it,
/// and ask for it by a weak handle: they may come after the end, since to other processes this run
/// ends a moment later. The bridge lets it go, and waits for the last of them.
class MemberBridge final : public Bridge {
 public:
  MemberBridge(Member& member, Bulk& bulk, const Graph& graph) : member_(member) {
    auto gone = std::make_shared<std::promise<void>>();
    gone_ = gone->get_future();
    traffic_ = std::shared_ptr<Traffic>(new Traffic(member, bulk, graph), [gone](Traffic* last) {
      delete last;
      gone->set_value();
    });
    open_ = traffic_;
  }
  ~MemberBridge() override { end(); }

  void open(std::shared_ptr<BridgeListener> listener) override {
    for (const auto& lane : traffic_->lanes) lane->open(listener);
    member_.open(
        [open = open_](int from, const std::string& body) {
          if (const auto traffic = open.lock()) traffic->on_message(from, body);
        },
        [open = open_](const PeerLost& peer) {
          if (const auto traffic = open.lock()) traffic->on_lost(peer);
        });
    const auto& frames = traffic_->voice->frames();
    for (std::uint32_t rank = 0; rank < frames.size(); ++rank)
      if (frames[rank]) open_frames(*frames[rank], rank);
  }

  void close() override { end(); }

  void let_wait() override {
    if (const auto traffic = open_.lock()) traffic->bulk.let_wait();
  }
  void catch_up() override {
    if (const auto traffic = open_.lock()) traffic->bulk.catch_up();
  }

  void send(std::uint32_t to, RemotePacket remote) override {
    if (const auto traffic = open_.lock()) traffic->send(to, remote);
  }
  void send(std::uint32_t to, RemoteCredit credit) override {
    if (const auto traffic = open_.lock()) traffic->voice->say(to, remote::encode(credit));
  }
  void send(std::uint32_t to, RunMessage note) override {
    const auto traffic = open_.lock();
    if (!traffic) return;
    if (is_last_word(note)) return traffic->voice->say_last(to, remote::encode(note));
    traffic->voice->say(to, remote::encode(note));
  }

 private:
  void open_frames(ShmMessageChannel& frames, std::uint32_t rank) {
    frames.open(
        [open = open_, rank](const std::string& body) {
          if (const auto traffic = open.lock()) traffic->on_message(static_cast<int>(rank), body);
        },
        [open = open_, rank](const Error& error) {
          if (const auto traffic = open.lock()) traffic->lanes[rank]->lost(error);
        });
  }

  void end() {
    if (!traffic_) return;
    Bulk& bulk = traffic_->bulk;
    traffic_->close();
    traffic_.reset();
    gone_.wait();
    bulk.catch_up();  // an actor that is still at work comes too late for that
  }

  Member& member_;
  std::shared_ptr<Traffic> traffic_;  ///< until close()
  std::weak_ptr<Traffic> open_;       ///< as others see it; never changes
  std::future<void> gone_;            ///< nobody holds it any more
};

}  // namespace

std::shared_ptr<Bridge> make_member_bridge(Member& member, Bulk& bulk, const Graph& graph) {
  return std::make_shared<MemberBridge>(member, bulk, graph);
}

}  // namespace troupe

// Ranks that are threads of one process: tensors are handed over, collectives read each other's.

#include <fmt/format.h>

#include <atomic>

#include "runtime/transport/inbox_exchange.h"

namespace troupe::transport {
namespace {

/// Counts the pieces of one exchange that peers have yet to read.
class Reads {
 public:
  void begin() {
    const std::lock_guard lock(mutex_);
    ++open_;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    if (--open_ == 0) changed_.notify_all();
  }
  /// False if that was given up.
  bool wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_ == 0 || given_up_; });
    return open_ == 0;
  }
  void give_up() {
    const std::lock_guard lock(mutex_);
    given_up_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int open_ = 0;
  bool given_up_ = false;
};

/// Ends a read when it is dropped, used or not, so that nobody waits for one who has gone.
class Read {
 public:
  explicit Read(std::shared_ptr<Reads> reads) : reads_(std::move(reads)) {}
  ~Read() { reads_->end(); }
  Read(const Read&) = delete;
  Read& operator=(const Read&) = delete;

 private:
  std::shared_ptr<Reads> reads_;
};

struct LocalArrival {
  TensorMeta meta;
  Tensor sent;                      ///< of a send
  CollectiveCall call;              ///< of a collective
  std::uint64_t stream = 0;         ///< under which its pieces come
  const std::byte* data = nullptr;  ///< of a piece
  std::size_t bytes = 0;
  std::shared_ptr<Read> read;
  std::shared_ptr<Storage> owner;  ///< of a piece: a rank that gave up does not take it away

  Tensor tensor() const { return sent; }
};

using LocalInbox = Inbox<LocalArrival>;

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

/// Shared by the ranks; outlives each of them.
struct Group {
  explicit Group(int size) : members(index(size)), inboxes(index(size)) {}

  std::recursive_mutex mutex;      ///< of members; who is aborted may fail others in turn
  std::vector<Endpoint*> members;  ///< null once gone
  std::vector<LocalInbox> inboxes;
  std::atomic<std::uint64_t> next_stream = 0;
};

class LocalExchange final : public InboxExchange<LocalArrival> {
 public:
  LocalExchange(Endpoint& endpoint, std::shared_ptr<Group> group, std::uint64_t tag,
                const CollectiveCall& call, const Tensor& in, const Tensor& out,
                std::shared_ptr<Reads> reads)
      : InboxExchange(endpoint, group->inboxes[index(endpoint.rank())], tag, call),
        group_(std::move(group)),
        in_(in),
        out_(out),
        own_(group_->next_stream.fetch_add(2)),
        reads_(std::move(reads)) {
    LocalArrival header;
    header.call = call;
    header.stream = own_;
    for (int peer = 0; peer < endpoint_.size(); ++peer)
      if (peer != endpoint_.rank())
        inbox_of(peer).arrive({endpoint_.rank(), InboxKey::Kind::collective, tag}, header);
  }

  Pace pace() const override { return {std::size_t{512} << 10, 2}; }

  void send(int to, Stream stream, const std::byte* data, std::size_t bytes) override {
    reads_->begin();
    LocalArrival piece;
    piece.data = data;
    piece.bytes = bytes;
    piece.read = std::make_shared<Read>(reads_);
    piece.owner = (out_.raw() <= data && data < out_.raw() + out_.bytes() ? out_ : in_).storage();
    inbox_of(to).arrive({endpoint_.rank(), InboxKey::Kind::piece, own_ + stream}, std::move(piece));
  }

  void send_to_all(Stream stream, const std::byte* data, std::size_t bytes) override {
    for (int peer = 0; peer < endpoint_.size(); ++peer)
      if (peer != endpoint_.rank()) send(peer, stream, data, bytes);
  }

  void finish() override {
    if (!reads_->wait()) throw endpoint_.ended().value();
  }

 private:
  LocalInbox& inbox_of(int peer) { return group_->inboxes[index(peer)]; }

  std::shared_ptr<Group> group_;
  const Tensor in_, out_;
  const std::uint64_t own_;
  const std::shared_ptr<Reads> reads_;
};

class LocalCommunicator final : public Endpoint {
 public:
  LocalCommunicator(std::shared_ptr<Group> group, int rank, int size)
      : Endpoint(rank, size), group_(std::move(group)) {
    group_->members[index(rank)] = this;
  }
  ~LocalCommunicator() override {
    close();
    {
      const std::lock_guard lock(group_->mutex);
      group_->members[index(rank())] = nullptr;
    }
    for (int peer = 0; peer < size(); ++peer)
      if (peer != rank())
        group_->inboxes[index(peer)].leave(
            rank(), Error(ErrorCode::peer_lost,
                          fmt::format("local, rank {} of {}: rank {} has ended its part and is "
                                      "still needed",
                                      peer, size(), rank())));
  }

  std::string name() const override { return "local"; }

 private:
  void start_send(int to, std::uint64_t tag, const Tensor& tensor, const WorkPtr& work) override {
    LocalArrival arrival;
    arrival.meta = TensorMeta::of(tensor);
    arrival.sent = tensor;
    group_->inboxes[index(to)].arrive({rank(), InboxKey::Kind::tensor, tag}, std::move(arrival));
    work->finish(success());
  }

  void start_receive(int from, std::uint64_t tag, const TensorMeta& meta,
                     const ReceivePtr& receive) override {
    group_->inboxes[index(rank())].expect(
        {from, InboxKey::Kind::tensor, tag},
        std::make_shared<ReceiveWaiter<LocalArrival>>(*this, from, tag, meta, receive));
  }

  std::unique_ptr<Exchange> open_exchange(std::uint64_t tag, const CollectiveCall& call,
                                          const Tensor& in, const Tensor& out) override {
    auto reads = std::make_shared<Reads>();
    {
      const std::lock_guard lock(reads_mutex_);
      std::erase_if(reads_, [](const auto& weak) { return weak.expired(); });
      reads_.push_back(reads);
    }
    if (ended()) reads->give_up();  // interrupt() has come and gone
    return std::make_unique<LocalExchange>(*this, group_, tag, call, in, out, std::move(reads));
  }

  void interrupt(const Error& error) override {
    group_->inboxes[index(rank())].close(error);
    const std::lock_guard lock(reads_mutex_);
    for (const auto& weak : reads_)
      if (const auto reads = weak.lock()) reads->give_up();
  }

  void warn(int peer, const Error& error) override {
    const std::lock_guard lock(group_->mutex);  // the peer cannot go meanwhile
    if (group_->members[index(peer)]) group_->members[index(peer)]->abort(error);
  }

  std::shared_ptr<Group> group_;
  std::mutex reads_mutex_;
  std::vector<std::weak_ptr<Reads>> reads_;  ///< of the exchanges under way
};

}  // namespace
}  // namespace troupe::transport

namespace troupe {

std::vector<std::unique_ptr<Communicator>> make_local_communicators(int size) {
  auto group = std::make_shared<transport::Group>(size);
  std::vector<std::unique_ptr<Communicator>> ranks;
  ranks.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank)
    ranks.push_back(std::make_unique<transport::LocalCommunicator>(group, rank, size));
  return ranks;
}

}  // namespace troupe

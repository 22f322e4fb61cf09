#include "tests/unit/runtime/transport/local.h"

#include <fmt/format.h>

#include <mutex>

#include "runtime/transport/receive_waiter.h"

namespace troupe::test {
namespace {

using namespace transport;

struct LocalArrival {
  TensorMeta meta;
  Tensor sent;

  Tensor tensor() const { return sent; }
};

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

/// Shared by the ranks; outlives each of them.
struct Group {
  explicit Group(int size) : members(index(size)), inboxes(index(size)) {}

  std::recursive_mutex mutex;  ///< of members; a rank that is aborted may fail others in turn
  std::vector<CommunicatorBase*> members;  ///< null once gone
  std::vector<Inbox<LocalArrival>> inboxes;
};

class LocalCommunicator final : public CommunicatorBase {
 public:
  LocalCommunicator(std::shared_ptr<Group> group, int rank, int size)
      : CommunicatorBase("local", rank, size, Device::cpu()), group_(std::move(group)) {
    group_->members[index(rank)] = this;
  }
  ~LocalCommunicator() override {
    close();
    {
      const std::lock_guard lock(group_->mutex);
      group_->members[index(rank())] = nullptr;
    }
    for (int peer = 0; peer < size(); ++peer)
      if (peer != rank()) group_->inboxes[index(peer)].leave(rank(), left(rank()));
  }

 private:
  void start_send(int to, std::uint64_t tag, const Tensor& tensor, const WorkPtr& work) override {
    group_->inboxes[index(to)].arrive({rank(), tag}, {TensorMeta::of(tensor), tensor});
    work->finish(success());
  }
  void start_receive(int from, std::uint64_t tag, const TensorMeta& meta,
                     const ReceivePtr& receive) override {
    group_->inboxes[index(rank())].expect(
        {from, tag},
        std::make_shared<ReceiveWaiter<LocalArrival>>(*this, from, tag, meta, receive));
  }
  void interrupt(const Error& error) override { group_->inboxes[index(rank())].close(error); }
  void warn(int peer, const Error& error) override {
    const std::lock_guard lock(group_->mutex);  // the peer cannot go meanwhile
    if (group_->members[index(peer)]) group_->members[index(peer)]->abort(error);
  }

  std::shared_ptr<Group> group_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_local_communicators(int size) {
  auto group = std::make_shared<Group>(size);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.push_back(std::make_unique<LocalCommunicator>(group, rank, size));
  return ranks;
}

}  // namespace troupe::test

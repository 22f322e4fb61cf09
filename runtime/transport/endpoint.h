#pragma once
// Inside the transports: what all communicators have in common.

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/transport/communicator.h"
#include "runtime/transport/crew.h"
#include "runtime/transport/exchange.h"

namespace troupe::transport {

/// Checks arguments, runs collectives on threads of their own, and ends all work once there is an
/// error. A transport is a class below this one that moves tensors; its destructor calls close()
/// first.
class Endpoint : public Communicator {
 public:
  int rank() const final { return rank_; }
  int size() const final { return size_; }

  WorkPtr send(int to, std::uint64_t tag, Tensor tensor) final;
  ReceivePtr receive(int from, std::uint64_t tag, const TensorMeta& meta) final;
  WorkPtr broadcast(int root, std::uint64_t tag, Tensor tensor) final;
  WorkPtr all_reduce(std::uint64_t tag, Tensor tensor) final;
  WorkPtr all_gather(std::uint64_t tag, Tensor in, Tensor out) final;
  WorkPtr reduce_scatter(std::uint64_t tag, Tensor in, Tensor out) final;
  void abort(const Error& error) final;
  /// Tells all peers, then aborts.
  void fail(const Error& error) final;

  /// A peer has told this rank why it ends. It is passed on before this rank ends: its end may
  /// reach others before that peer's words do, and they would hear of a lost connection only.
  void end_as_told(std::uint32_t code, std::string_view warning);
  /// The error that ended this communicator, if one did.
  std::optional<Error> ended() const;
  /// The error of a send that does not fit its receive.
  Error misfit(int from, std::uint64_t tag, const TensorMeta& sent, const TensorMeta& wanted) const;
  /// The error of ranks that call a collective differently.
  Error misfit(int peer, std::uint64_t tag, const CollectiveCall& theirs,
               const CollectiveCall& ours) const;
  /// The error of a peer that has said goodbye.
  Error left(int peer) const;

 protected:
  Endpoint(int rank, int size) : rank_(rank), size_(size) {}

  // For a transport to fill in; called by any thread, at times just after interrupt(), when the
  // work has ended already.
  virtual void start_send(int to, std::uint64_t tag, const Tensor& tensor, const WorkPtr& work) = 0;
  virtual void start_receive(int from, std::uint64_t tag, const TensorMeta& meta,
                             const ReceivePtr& receive) = 0;
  /// Called in the order of this rank's calls; tells the peers of the call, and does not block. The
  /// pieces lie in `in` and `out`.
  virtual std::unique_ptr<Exchange> open_exchange(std::uint64_t tag, const CollectiveCall& call,
                                                  const Tensor& in, const Tensor& out) = 0;
  /// Makes every Exchange throw `error`. When it returns, no byte of this rank's tensors is read or
  /// written any more (but what make_local_communicators says of its own). Called once; must not
  /// wait for collectives.
  virtual void interrupt(const Error& error) = 0;
  /// Tries to tell a peer that this rank ends for this reason: its code and warning_of() it, for
  /// the peer's end_as_told(). Must not block; what a full socket does not take is lost.
  virtual void warn(int peer, const Error& error) = 0;

  static std::string warning_of(const Error& error) {
    return error.message() + '\n' + error.remedy();
  }
  /// Ends what is under way and waits for collectives' threads.
  void close();
  /// "gloo, rank 1 of 4": how messages begin.
  std::string where() const;

 private:
  void check_peer(const char* what, int peer) const;
  void check_tensor(const char* what, const Tensor& tensor) const;
  void check_device(const char* what, Device device) const;
  void check_parts(const char* what, const Tensor& whole, const Tensor& part) const;
  WorkPtr collective(std::uint64_t tag, CollectiveCall call, Tensor in, Tensor out);
  bool track(const WorkPtr& work);  ///< false: the communicator has ended, and the work with it
  Status carry_out(Exchange& exchange, const CollectiveCall& call, const Tensor& in,
                   const Tensor& out);

  const int rank_, size_;
  mutable std::mutex mutex_;
  std::optional<Error> ended_;
  bool at_rest_ = false;  ///< interrupt() is over
  std::condition_variable came_to_rest_;
  std::vector<std::weak_ptr<Work>> under_way_;
  std::size_t prune_at_ = 64;  ///< the size of under_way_ at which it is looked through next
  std::mutex opening_;         ///< one collective is opened at a time
  std::mutex telling_;  ///< held while peers are told why: none is left out by an end meanwhile
  std::unique_ptr<Crew> crew_ = std::make_unique<Crew>();
};

}  // namespace troupe::transport

#pragma once
// Inside the transports: what all communicators have in common.

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/transport/communicator.h"

namespace troupe::transport {

/// Checks arguments, and ends all works once the communicator has failed. Each transport derives
/// its communicator from this class; the destructor of the derived class calls close() first.
class CommunicatorBase : public Communicator {
 public:
  int rank() const final { return rank_; }
  int size() const final { return size_; }

  WorkPtr send(int to, std::uint64_t tag, Tensor tensor) final;
  ReceivePtr receive(int from, std::uint64_t tag, const TensorMeta& meta) final;
  void abort(const Error& error) final;
  /// Notifies all peers, then aborts.
  void fail(const Error& error) final;

  /// A peer has sent the reason for its end. This rank forwards it before it ends: its own end may
  /// reach the other ranks before that peer's message, and they would see a lost connection only.
  void end_as_reported(std::uint32_t code, std::string_view warning);
  /// The error that ended this communicator, if one did.
  std::optional<Error> ended() const;
  /// The error of a send that does not fit its receive.
  Error misfit(int from, std::uint64_t tag, const TensorMeta& sent, const TensorMeta& wanted) const;
  /// The error of a receive from a peer that has closed.
  Error left(int peer) const;

 protected:
  /// `name`: of the transport, a literal.
  CommunicatorBase(std::string_view name, int rank, int size, Device device)
      : name_(name), rank_(rank), size_(size), device_(device) {}

  // Each transport implements these functions. Any thread may call them, even just after
  // interrupt(), when the work has already ended.
  virtual void start_send(int to, std::uint64_t tag, const Tensor& tensor, const WorkPtr& work) = 0;
  virtual void start_receive(int from, std::uint64_t tag, const TensorMeta& meta,
                             const ReceivePtr& receive) = 0;
  /// Called once, when the communicator ends. When it returns, the transport reads and writes no
  /// byte of this rank's tensors.
  virtual void interrupt(const Error& error) = 0;
  /// Sends a peer the reason why this rank ends: its code and warning_of() it, which the peer
  /// passes to end_as_reported(). Must not block; a message that does not fit into the socket is
  /// lost.
  virtual void warn(int peer, const Error& error) = 0;

  static std::string warning_of(const Error& error) {
    return error.message() + '\n' + error.remedy();
  }
  /// Ends all unfinished works.
  void close();
  /// "gloo, rank 1 of 4": the beginning of messages.
  std::string where() const;

 private:
  void check_peer(const char* what, int peer) const;
  bool track(const WorkPtr& work);  ///< false: the communicator has ended, and the work with it

  const std::string_view name_;
  const int rank_, size_;
  const Device device_;  ///< of the tensors
  mutable std::mutex mutex_;
  std::optional<Error> ended_;
  std::vector<std::weak_ptr<Work>> under_way_;
  std::size_t prune_at_ = 64;  ///< the size of under_way_ at which finished works are removed
  std::mutex notifying_;       ///< held by fail(), so that no end leaves out a peer
};

}  // namespace troupe::transport

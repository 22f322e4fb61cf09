#pragma once
// Inside the transports: how the ranks of a group find each other.

#include <chrono>
#include <cstddef>
#include <string>

#include "runtime/error.h"
#include "runtime/fd.h"
#include "runtime/transport/store.h"

namespace troupe::transport {

/// 128 random bits in 32 letters: names and passwords that nobody guesses.
std::string random_word();
constexpr std::size_t letters_of_a_word = 32;

/// Every rank listens, leaves in the store how it is reached, calls the lower ranks and is called
/// by the higher ones. Strangers may call too: who does not know the group's secret is let go, and
/// holds up nobody. What a call looks like is for the transport to say, below this class.
class Meeting {
 public:
  struct Group {
    std::string transport;  ///< begins messages
    Store& store;
    int rank = 0, size = 0;
    std::string prefix;  ///< of the keys in the store
    std::chrono::milliseconds timeout{};
    std::string remedy;  ///< where the system gives no sockets
  };

  virtual ~Meeting() = default;
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  Status run();  ///< until all have met, or with who is missing

 protected:
  explicit Meeting(Group group);

  /// Makes the socket that listens; returns how others reach it.
  virtual Result<std::string> listen(Fd& listener) = 0;
  virtual Status call(int peer, const std::string& address) = 0;
  /// Somebody has called and said something: keeps the connection if it is a missing rank's.
  virtual void greet(Fd caller) = 0;
  virtual bool has_met(int peer) const = 0;

  const Group& group() const { return group_; }
  std::chrono::milliseconds left() const;
  bool await(const Fd& socket, short event) const;  ///< of poll(2); false: not in time
  Error missing(int peer, const std::string& detail) const;
  Error no_socket(const char* what) const;  ///< with errno

 private:
  std::string key(int rank) const;
  Status call_lower_ranks();
  Status await_higher_ranks(const Fd& listener);
  int still_missing() const;

  const Group group_;
  const std::chrono::steady_clock::time_point deadline_;
};

}  // namespace troupe::transport

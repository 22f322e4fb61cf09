#pragma once
// The store that the coordinator keeps for its members: values, claims and barriers. No sockets.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace troupe::control {

class KeyValueStore {
 public:
  /// A request: the member and its number.
  struct Ticket {
    int rank = 0;
    std::uint64_t id = 0;
  };
  /// `error` is empty on success.
  using Answer = std::function<void(Ticket to, const std::string& value, const std::string& error)>;

  explicit KeyValueStore(Answer answer) : answer_(std::move(answer)) {}

  void put(Ticket from, const std::string& key, std::string value);
  /// Answers when the key has a value.
  void get(Ticket from, const std::string& key);
  /// As get, but answers the first member that claims the key with an empty value, on each of its
  /// requests. That member must put the value. If it leaves before it does, the claim passes to the
  /// next member.
  void claim(Ticket from, const std::string& key);
  void cancel(Ticket from, const std::string& key);
  /// A barrier is complete when `size` different ranks have arrived.
  void arrive(Ticket from, const std::string& barrier, int size);
  void cancel_arrival(Ticket from, const std::string& barrier);

  /// A member has left or is lost: its claims pass to the next members.
  void gone(int rank);

  /// A member is lost: all waits except claims, current and later, end with `why`. Values that were
  /// put can still be read.
  void close(const std::string& why);

  /// A member has left: no barrier can be complete any more.
  void close_barriers(const std::string& why);

  void clear();

 private:
  using Line = std::deque<Ticket>;  ///< claims of a key; the first one is to put it
  using Arrivals = std::map<int, std::vector<Ticket>>;  ///< by rank
  template <class IsGone>
  void leave_lines(IsGone is_gone);

  Answer answer_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::vector<Ticket>> readers_;
  std::map<std::string, Line> claims_;
  std::map<std::string, Arrivals> barriers_;
  std::string closed_;
  std::string barriers_closed_;
};

}  // namespace troupe::control

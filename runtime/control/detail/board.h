#pragma once
// What members leave with the coordinator and wait for there: values and barriers. No sockets.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace troupe::control {

class Board {
 public:
  /// Who waits: a member and the number of its request.
  struct Ticket {
    int rank = 0;
    std::uint64_t id = 0;
  };
  /// `error` is empty when all is well.
  using Answer = std::function<void(Ticket to, const std::string& value, const std::string& error)>;

  explicit Board(Answer answer) : answer_(std::move(answer)) {}

  void put(Ticket from, const std::string& key, std::string value);
  void get(Ticket from, const std::string& key);
  /// As get, but whoever is first gets an empty value, each time it asks, and the others what it
  /// puts. When it goes before that, the next one is first.
  void claim(Ticket from, const std::string& key);
  void cancel(Ticket from, const std::string& key);
  /// A barrier is complete when `size` ranks are there, however often each has come.
  void arrive(Ticket from, const std::string& barrier, int size);
  void cancel_arrival(Ticket from, const std::string& barrier);

  /// A member has left or is lost: its claims go on to the next in line.
  void gone(int rank);

  /// A member is lost: every wait but for claims, present and to come, ends with `why`; values that
  /// are there can still be had.
  void close(const std::string& why);

  /// A member has left: no barrier can be complete any more.
  void close_barriers(const std::string& why);

  void clear();

 private:
  using Line = std::deque<Ticket>;  ///< who claims a key; the first is to put it
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

#pragma once
// What members leave with the coordinator and wait for there: values and barriers. No sockets.

#include <cstdint>
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
  void cancel(Ticket from, const std::string& key);
  void arrive(Ticket from, const std::string& barrier, int size);

  /// A member is lost: every wait, present and to come, ends with `why`; values that are there can
  /// still be had.
  void close(const std::string& why);

  /// A member has left: no barrier can be complete any more.
  void close_barriers(const std::string& why);

  void clear();

 private:
  Answer answer_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::vector<Ticket>> readers_;
  std::map<std::string, std::vector<Ticket>> barriers_;
  std::string closed_;
  std::string barriers_closed_;
};

}  // namespace troupe::control

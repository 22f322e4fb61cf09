#pragma once
// The members that have joined a forming world, and their ranks. No sockets, no clock.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/control/detail/wire.h"

namespace troupe::control {

class Roster {
 public:
  /// `of_launchers`: messages name hosts and launcher settings.
  Roster(std::string run, int size, bool of_launchers = false)
      : run_(std::move(run)), size_(size), of_launchers_(of_launchers) {}

  /// Reserves the rank that `owner` asks for: no other process is admitted with it.
  void reserve(wire::Join owner) { owner_ = std::move(owner); }

  /// Admits a process, or returns why not.
  std::optional<wire::Refused> admit(const wire::Join& join, std::uint64_t session);

  /// The refusal of a process of another run.
  wire::Refused another_run(const wire::Join& join) const;
  void withdraw(std::uint64_t session);
  void clear();

  bool is_whole() const { return static_cast<int>(here_.size()) == size_; }

  /// Sessions by rank. Processes get the ranks that they requested. The other ranks go to the hosts
  /// and local ranks that had them before, then in the order of host and local rank.
  std::vector<std::uint64_t> assign();

  /// The welcome of every member, without its own rank.
  wire::Welcome welcome(const std::vector<std::uint64_t>& by_rank) const;

  /// "ranks 2, 3 of 4 did not join within 30 s; joined: a (ranks 0, 1)".
  wire::Refused timeout(std::chrono::milliseconds waited) const;

 private:
  struct Here {
    wire::Join join;
    std::uint64_t session = 0;
  };
  using Place = std::pair<std::string, std::uint32_t>;

  const Here& of(std::uint64_t session) const;
  const wire::Join* holder_of_rank(const wire::Join& join) const;
  wire::Refused another_size(const wire::Join& join) const;
  wire::Refused beyond_the_world(const wire::Join& join) const;
  wire::Refused rank_is_taken(const wire::Join& join, const wire::Join& other) const;
  std::string free_ranks() const;
  std::string missing() const;
  std::string present() const;

  std::string run_;
  int size_;
  bool of_launchers_;
  std::optional<wire::Join> owner_;
  std::vector<Here> here_;
  std::unordered_map<std::uint32_t, std::uint64_t> taken_;  ///< session by requested rank
  std::map<Place, int> remembered_;
};

wire::Refused refusal(wire::Refused::Reason reason, std::string message, std::string remedy);

}  // namespace troupe::control

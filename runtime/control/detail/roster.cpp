#include "runtime/control/detail/roster.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

#include "runtime/text.h"

namespace troupe::control {
namespace {

constexpr std::size_t most_listed = 16;

std::string process(const wire::Join& join) {
  return fmt::format("process {} on {}", join.pid(), join.host());
}

}  // namespace

wire::Refused refusal(wire::Refused::Reason reason, std::string message, std::string remedy) {
  wire::Refused refused;
  refused.set_reason(reason);
  refused.set_message(std::move(message));
  refused.set_remedy(std::move(remedy));
  return refused;
}

std::optional<wire::Refused> Roster::admit(const wire::Join& join, std::uint64_t session) {
  if (join.run() != run_) return another_run(join);
  if (join.size() != static_cast<std::uint32_t>(size_)) return another_size(join);
  if (join.rank() > join.size()) return beyond_the_world(join);
  if (const wire::Join* other = holder_of_rank(join)) return rank_is_taken(join, *other);
  if (is_whole())
    return refusal(
        wire::Refused::SIZE,
        fmt::format("{} asks to join a world whose {} ranks are all taken", process(join), size_),
        of_launchers_
            ? "wait until that job has ended, or set `MemberOptions::coordinator` to another port"
            : "wait until that run has ended, or set `MemberOptions::run` to another one");
  here_.push_back({join, session});
  if (join.rank() != 0) taken_[join.rank()] = session;
  return std::nullopt;
}

wire::Refused Roster::another_run(const wire::Join& join) const {
  if (of_launchers_)
    return refusal(
        wire::Refused::RUN,
        fmt::format(
            "{} was started with `MemberOptions::run` {}, but another run uses this rendezvous",
            join.host(), join.run()),
        "set `MemberOptions::run` as the other hosts do; for another job, set "
        "`MemberOptions::coordinator` to another port");
  return refusal(wire::Refused::RUN,
                 fmt::format("the coordinator serves a different run from '{}'", join.run()),
                 "set the same `MemberOptions::run` for all processes of the job; if another job "
                 "is there, set another `MemberOptions::run` and `MemberOptions::coordinator`");
}

wire::Refused Roster::another_size(const wire::Join& join) const {
  if (of_launchers_)
    return refusal(
        wire::Refused::SIZE,
        fmt::format(
            "{} was started with `MemberOptions::size` {}, the host of the rendezvous with {}",
            join.host(), join.size(), size_),
        fmt::format("set `MemberOptions::size` to {}", size_));
  return refusal(wire::Refused::SIZE,
                 fmt::format("{} expects a world of {} processes, the coordinator one of {}",
                             process(join), join.size(), size_),
                 "start all processes of the job with the same launcher command");
}

wire::Refused Roster::beyond_the_world(const wire::Join& join) const {
  return refusal(wire::Refused::RANK,
                 fmt::format("{} asks for rank {}, but the last of the world's {} ranks is {}",
                             process(join), join.rank() - 1, size_, size_ - 1),
                 "check RANK and WORLD_SIZE, or the launcher's numbers of nodes and processes");
}

wire::Refused Roster::rank_is_taken(const wire::Join& join, const wire::Join& other) const {
  if (of_launchers_) {
    const std::string free = free_ranks();
    return refusal(
        wire::Refused::RANK,
        fmt::format(
            "{} was started with `MemberOptions::rank` {}, which {} (process {}) already has",
            process(join), join.rank() - 1, other.host(), other.pid()),
        free.empty() ? "set another `MemberOptions::rank` for each host"
                     : "set `MemberOptions::rank` to " + free);
  }
  return refusal(
      wire::Refused::RANK,
      fmt::format("{} asks for rank {}, but so does {}", process(join), join.rank() - 1,
                  process(other)),
      fmt::format("give each process a different rank; if the launcher was started "
                  "twice, or another run has the id '{}', set another `MemberOptions::run` "
                  "(TROUPE_RUN_ID, or MASTER_ADDR and MASTER_PORT)",
                  run_));
}

/// "1", "2 or 3"; empty if none.
std::string Roster::free_ranks() const {
  std::vector<std::string> free;
  for (std::uint32_t rank = 1; rank <= static_cast<std::uint32_t>(size_); ++rank)
    if (!taken_.contains(rank) && !(owner_ && owner_->rank() == rank))
      free.push_back(std::to_string(rank - 1));
  if (free.size() > most_listed) free.resize(most_listed);
  return fmt::format("{}", fmt::join(free, " or "));
}

/// The other process that has the requested rank, or null.
const wire::Join* Roster::holder_of_rank(const wire::Join& join) const {
  if (const auto other = taken_.find(join.rank()); other != taken_.end())
    return &of(other->second).join;
  const bool is_kept = owner_ && join.rank() == owner_->rank() &&
                       (join.pid() != owner_->pid() || join.identity() != owner_->identity());
  return is_kept ? &*owner_ : nullptr;
}

const Roster::Here& Roster::of(std::uint64_t session) const {
  return *std::find_if(here_.begin(), here_.end(),
                       [&](const Here& here) { return here.session == session; });
}

void Roster::withdraw(std::uint64_t session) {
  std::erase_if(here_, [&](const Here& here) { return here.session == session; });
  std::erase_if(taken_, [&](const auto& rank) { return rank.second == session; });
}

void Roster::clear() {
  here_.clear();
  taken_.clear();
}

std::vector<std::uint64_t> Roster::assign() {
  std::vector<std::uint64_t> by_rank(static_cast<std::size_t>(size_), 0);
  std::vector<const Here*> open;
  for (const Here& here : here_) {
    if (here.join.rank() == 0)
      open.push_back(&here);
    else
      by_rank[here.join.rank() - 1] = here.session;
  }
  std::sort(open.begin(), open.end(), [](const Here* a, const Here* b) {
    const auto key = [](const Here* here) {
      return std::tuple(here->join.host(), here->join.local_rank(), here->join.pid(),
                        here->session);
    };
    return key(a) < key(b);
  });
  const auto place = [](const Here* here) {
    return Place(here->join.host(), here->join.local_rank());
  };
  std::erase_if(open, [&](const Here* here) {
    const auto before = remembered_.find(place(here));
    if (before == remembered_.end()) return false;
    std::uint64_t& seat = by_rank[static_cast<std::size_t>(before->second)];
    if (seat != 0) return false;
    seat = here->session;
    return true;
  });
  auto seat = by_rank.begin();
  for (const Here* here : open) {
    seat = std::find(seat, by_rank.end(), 0);
    remembered_[place(here)] = static_cast<int>(seat - by_rank.begin());
    *seat = here->session;
  }
  return by_rank;
}

wire::Welcome Roster::welcome(const std::vector<std::uint64_t>& by_rank) const {
  wire::Welcome welcome;
  std::map<std::uint64_t, const Here*> by_session;
  for (const Here& here : here_) by_session[here.session] = &here;
  std::map<std::tuple<std::string, std::string, std::string>, std::uint32_t> hosts;
  for (const std::uint64_t session : by_rank) {
    const wire::Join& join = by_session.at(session)->join;
    const auto [host, is_new] = hosts.try_emplace({join.host(), join.address(), join.identity()},
                                                  static_cast<std::uint32_t>(hosts.size()));
    if (is_new) {
      auto* entry = welcome.add_hosts();
      entry->set_name(join.host());
      entry->set_address(join.address());
      entry->set_identity(join.identity());
    }
    welcome.add_host(host->second);
    welcome.add_port(join.port());
    welcome.add_pid(join.pid());
    welcome.add_session(session);
  }
  return welcome;
}

std::string Roster::missing() const {
  std::vector<std::string> ranks;
  std::size_t unnamed = 0;
  std::vector<bool> taken(static_cast<std::size_t>(size_), false);
  for (const Here& here : here_) {
    if (here.join.rank() == 0)
      ++unnamed;
    else
      taken[here.join.rank() - 1] = true;
  }
  const std::size_t count = static_cast<std::size_t>(size_) - here_.size();
  // If processes did not ask for ranks, only the number of missing ones is known.
  if (unnamed > 0)
    return fmt::format("{} of {} {}", count, size_, of_launchers_ ? "hosts" : "processes");
  for (int rank = 0; rank < size_; ++rank)
    if (!taken[static_cast<std::size_t>(rank)]) ranks.push_back(std::to_string(rank));
  return fmt::format("{}rank{} {} of {}", of_launchers_ ? "node " : "",
                     ranks.size() == 1 ? "" : "s", listed(ranks, most_listed), size_);
}

std::string Roster::present() const {
  std::map<std::string, std::vector<int>> hosts;
  for (const Here& here : here_)
    hosts[here.join.host()].push_back(static_cast<int>(here.join.rank()) - 1);
  std::vector<std::string> entries;
  for (auto& [host, ranks] : hosts) {
    std::sort(ranks.begin(), ranks.end());
    std::vector<std::string> names;
    const auto unnamed = std::ranges::count_if(ranks, [](int rank) { return rank < 0; });
    for (const int rank : ranks)
      if (rank >= 0) names.push_back(std::to_string(rank));
    const char* what = of_launchers_ ? "node rank" : "rank";
    std::string came = names.empty() ? ""
                                     : fmt::format("{}{} {}", what, names.size() == 1 ? "" : "s",
                                                   listed(names, most_listed));
    if (unnamed > 0)
      came += fmt::format("{}{} without a {}", came.empty() ? "" : " and ", unnamed, what);
    entries.push_back(fmt::format("{} ({})", host, came));
  }
  return listed(entries, most_listed);
}

wire::Refused Roster::timeout(std::chrono::milliseconds waited) const {
  return refusal(
      wire::Refused::TIMEOUT,
      fmt::format("{} did not join within {}; joined: {}", missing(), in_words(waited), present()),
      fmt::format(
          "see the output of the missing processes, check the numbers of nodes and processes "
          "and that no other run has the id '{}', or raise `timeout`",
          run_));
}

}  // namespace troupe::control

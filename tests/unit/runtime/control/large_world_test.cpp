// A thousand members on real sockets: what they cost the coordinator.

#include <sys/resource.h>

#include <fstream>
#include <set>

#include "runtime/control/detail/context.h"
#include "tests/sanitized.h"
#include "tests/unit/runtime/own_memory.h"
#include "world.h"

namespace troupe {
namespace {

using namespace control_test;

constexpr int members = is_sanitized ? 100 : 1000;
constexpr int descriptors_each = 13;  ///< of a member, at its coordinator included

/// Whether this process may open so many descriptors.
bool have_descriptors(rlim_t count) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max < count) return false;
  limit.rlim_cur = std::max(limit.rlim_cur, count);
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

/// What one of many members sees.
struct Seen {
  int rank = -1;
  int size = 0;
  std::string failure;
  void expect(const Status& status) {
    if (!status) failure += status.error().what();
  }
};

/// Joins, passes a barrier and leaves once all have passed it.
Seen visit(const MemberOptions& options) {
  Seen seen;
  auto joined = Member::join(options);
  if (!joined) return {-1, 0, joined.error().what()};
  Member& member = *joined.value();
  seen.rank = member.rank();
  seen.size = static_cast<int>(member.processes().size());
  seen.expect(member.barrier("all"));
  seen.expect(member.leave());
  return seen;
}

TEST(ControlWorld, AThousandMembersJoinPassABarrierAndLeaveForAFixedPriceEach) {
  if (!have_descriptors(descriptors_each * members + 100))
    GTEST_SKIP() << "this process may not open " << descriptors_each * members
                 << " descriptors: see ulimit -Hn";
  const long before = test::own_memory("VmRSS");
  const auto start = std::chrono::steady_clock::now();
  const JobKey key = JobKey::generate();
  auto coordinator = std::move(Coordinator::start(coordinator_options(members, key)).value());
  const auto messaging = std::make_shared<MessagingContext>(2, 16 * members);
  std::vector<Seen> seen(members);
  long most = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < members; ++i)
      threads.emplace_back([&, i] {
        MemberOptions options = member_options(*coordinator, std::nullopt, members, key);
        options.local_rank = i;
        options.messaging = messaging;
        seen[static_cast<std::size_t>(i)] = visit(options);
      });
    ASSERT_TRUE(coordinator->wait_for_end(patience));
    most = test::own_memory("VmRSS") - before;
  }
  const ControlCounters counters = coordinator->counters();
  for (int i = 0; i < members; ++i) {
    const Seen& one = seen[static_cast<std::size_t>(i)];
    ASSERT_EQ(one.failure, "");
    ASSERT_EQ(one.rank, i);
    ASSERT_EQ(one.size, members);
  }
  // Join, arrive, leave: each was taken once.
  EXPECT_EQ(counters.delivered, 3u * members);
  // Beside these, acknowledgements and heartbeats: a few a second, however many there are.
  const auto seconds =
      std::chrono::ceil<std::chrono::seconds>(std::chrono::steady_clock::now() - start);
  const auto each = static_cast<std::uint64_t>(12 + 12 * seconds.count());
  EXPECT_LE(counters.frames, each * members);
  EXPECT_LE(counters.sent, each * members);
  if (!is_sanitized) {
    EXPECT_LE(most / members, 512) << "KiB for a member and its place at the coordinator";
  }
}

}  // namespace
}  // namespace troupe

#include "runtime/control/membership.h"

#include <fmt/format.h>

#include <thread>

#include "runtime/control/detail/probe.h"
#include "runtime/control/endpoint.h"
#include "runtime/control/interface.h"
#include "runtime/control/messaging.h"
#include "runtime/text.h"

namespace troupe {
namespace {

/// An address outside, to find the interface of the default route. It is of the block for
/// documentation (RFC 5737): nothing is sent to it.
constexpr const char* somewhere_else = "192.0.2.1";

/// Empty if there is no route to `host`, or its name is unknown, as for the nodes of a test on one
/// machine.
std::string address_if_known(const std::string& host) {
  try {
    return address_towards(host);
  } catch (const Error&) {
    return {};
  }
}

/// Waits until rank 0 has published the endpoint of its coordinator.
Result<std::string> wait_for_coordinator(const JobFile& file, const MembershipOptions& options) {
  using Clock = std::chrono::steady_clock;
  const auto timeout = options.timeout;
  const auto deadline = Clock::now() + timeout;
  std::chrono::milliseconds pause{2};
  for (;;) {
    if (std::string found = file.coordinator(); !found.empty()) return found;
    if (options.stop.stop_requested())
      return Error(ErrorCode::refused, "stopped before rank 0 had joined");
    if (Clock::now() > deadline)
      return Error(
          ErrorCode::timed_out,
          fmt::format("rank 0 did not join within {}: {} names no coordinator", in_words(timeout),
                      file.path().string()),
          "see the output of rank 0; if its host does not share that path, set TROUPE_JOB_FILE to "
          "one that all hosts share");
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::milliseconds(100));
  }
}

/// Whether the coordinator's port refuses connections, within 100 ms.
bool has_ended(const std::string& coordinator) {
  const auto place = parse_endpoint(coordinator);
  if (!place) return false;
  control::Probe probe(place->host, place->port);
  const auto until = control::Clock::now() + std::chrono::milliseconds(100);
  for (auto now = control::Clock::now(); now < until; now = control::Clock::now()) {
    const auto finding = probe.look(now);
    if (finding != control::Probe::Finding::pending)
      return finding == control::Probe::Finding::ended;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

}  // namespace

std::string address_for_world(const World& world, const std::string& interface) {
  if (!interface.empty()) return address_of_interface(interface);
  if (world.nodes == 1 || world.local_size == world.size) return "127.0.0.1";
  for (std::size_t node = 0; node < world.hosts.size(); ++node) {
    if (static_cast<int>(node) == world.node) continue;
    if (std::string address = address_if_known(world.hosts[node]); !address.empty()) return address;
  }
  std::string address = address_if_known(somewhere_else);
  if (!address.empty() && !is_loopback(address)) return address;
  for (const auto& [name, candidate] : network_interfaces())
    if (!is_loopback(candidate)) return candidate;
  return "127.0.0.1";
}

Membership::~Membership() {
  part();
  if (file_) remove_file();
}

void Membership::part() {
  if (member_) lost_coordinator_ = member_->lost_coordinator();
  member_.reset();
}

/// The file may already be of the next job: removes it only if it is of this one.
void Membership::remove_file() const {
  if (coordinator_) return file_->remove(coordinator_->endpoint());
  if (unclaimed_) file_->remove_unclaimed(*unclaimed_);
  if (left_) return;  // the coordinator still runs, and removes it
  if (!lost_coordinator_.empty()) return file_->remove(lost_coordinator_);
  if (const std::string named = file_->coordinator(); has_ended(named)) file_->remove(named);
}

JobKey Membership::take_key() {
  unclaimed_ = file_->create();
  return unclaimed_ ? *unclaimed_ : file_->key();
}

Status Membership::keep_coordinator(const World& world, const JobKey& key,
                                    const MembershipOptions& options) {
  CoordinatorOptions wanted;
  wanted.key = key;
  wanted.run = world.run_id;
  wanted.size = world.size;
  wanted.address = address_for_world(world, options.interface);
  wanted.timeout = options.timeout;
  wanted.own_rank = world.rank;
  wanted.messaging = messaging_;
  auto started = Coordinator::start(wanted);
  if (!started) return started.error();
  coordinator_ = std::move(started.value());
  file_->publish(key, coordinator_->endpoint());
  return success();
}

Result<std::unique_ptr<Membership>> Membership::enter(const World& world,
                                                      const Environment& environment,
                                                      const MembershipOptions& options) {
  std::unique_ptr<Membership> membership(new Membership);
  membership->timeout_ = options.timeout;
  membership->messaging_ = new_messaging_context();
  MemberOptions wanted;
  const auto given_key = environment.get("TROUPE_JOB_KEY");
  const auto given_place = environment.get("TROUPE_COORDINATOR");
  const bool needs_file = !given_key || !given_place;
  if (needs_file) membership->file_ = JobFile::of_run(environment, world.run_id);
  wanted.key = given_key ? JobKey::parse(*given_key) : membership->take_key();
  if (given_place) {
    wanted.coordinator = *given_place;
  } else if (world.rank == 0) {
    if (const Status kept = membership->keep_coordinator(world, wanted.key, options); !kept)
      return kept.error();
    wanted.coordinator = membership->coordinator_->endpoint();
  } else {
    const auto found = wait_for_coordinator(*membership->file_, options);
    if (!found) {
      membership->unclaimed_ = wanted.key;
      return found.error();
    }
    wanted.coordinator = found.value();
    // Of its file: a process that gave up meanwhile has removed the one with the first key.
    if (!given_key) wanted.key = membership->file_->present_key();
    wanted.find_coordinator = [file = *membership->file_] { return file.coordinator(); };
  }
  wanted.run = world.run_id;
  wanted.rank = world.rank;
  wanted.size = world.size;
  wanted.local_rank = world.local_rank;
  wanted.restart = world.restart;
  wanted.interface = options.interface;
  wanted.timeout = options.timeout;
  wanted.stop = options.stop;
  wanted.messaging = membership->messaging_;
  if (world.node >= 0 && static_cast<std::size_t>(world.node) < world.hosts.size())
    wanted.host = world.hosts[static_cast<std::size_t>(world.node)];
  auto joined = Member::join(wanted);
  if (!joined) return joined.error();
  membership->member_ = std::move(joined.value());
  return membership;
}

Status Membership::leave() {
  Status left = member_->leave();
  left_ = left_ || static_cast<bool>(left);
  if (coordinator_ && left) (void)coordinator_->wait_for_end(timeout_);
  return left;
}

void Membership::abandon() {
  part();
  if (coordinator_) (void)coordinator_->wait_for_end(timeout_);
}

}  // namespace troupe

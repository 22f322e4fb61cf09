#include "apps/launch/launcher_rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <random>
#include <utility>

#include "apps/error_wording.h"
#include "apps/launch/own_address.h"
#include "apps/launch/print_message.h"
#include "runtime/control/endpoint.h"
#include "runtime/error.h"
#include "runtime/print.h"
#include "runtime/text.h"
#include "runtime/world/environment.h"
#include "runtime/world/world.h"

namespace troupe {
namespace {

std::chrono::milliseconds patience_of(const LaunchOptions& options) {
  using std::chrono::seconds;
  return std::clamp<std::chrono::milliseconds>(options.join_timeout, seconds(3), seconds(30));
}

/// Jobs of one user with the same id differ by their endpoints.
std::string job_file_name(const LaunchOptions& options) {
  return file_name_of(
      fmt::format("{}-{}-{}", options.run_id, options.endpoint->host, options.endpoint->port));
}

/// Sleeps, until a stop is requested.
void pause(std::chrono::milliseconds time, const std::stop_token& stop) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any().wait_for(lock, stop, time, [] { return false; });
}

}  // namespace

LauncherRendezvous::LauncherRendezvous(const LaunchOptions& options, std::stop_token stop)
    : options_(options), stop_(std::move(stop)), patience_(patience_of(options)) {
  const auto environment = Environment::of_process();
  if (const auto given = environment.get("TROUPE_JOB_KEY"))
    key_ = JobKey::parse(*given);
  else
    take_key(JobFile::of_run(environment, job_file_name(options)));
  const auto end = Clock::now() + options.join_timeout;
  try {
    const OwnAddress own = own_address(options);
    address_ = own.address;
    if (own.has_endpoint) host(end);
    // Launchers of one host listen at one address, and its name may lead to another: its loopback.
    join(own.has_endpoint ? address_ : options.endpoint->host, end);
  } catch (...) {
    forget_key();
    throw;
  }
}

LauncherRendezvous::~LauncherRendezvous() { forget_key(); }

void LauncherRendezvous::leave(bool all_have_ended) {
  constexpr std::chrono::seconds moment{1};
  // So that the others see that this launcher has ended and is not lost.
  static_cast<void>(all_have_ended ? member_->leave() : member_->leave_at_once(moment));
  member_.reset();  // before the wait, which includes this member
  if (coordinator_ && all_have_ended) static_cast<void>(coordinator_->wait_for_end(patience_));
  if (coordinator_) forget_key();
  removes_key_ = false;
}

void LauncherRendezvous::take_key(JobFile file) {
  file_ = std::move(file);
  const auto drawn = file_->create();
  key_ = drawn ? *drawn : file_->key();
  removes_key_ = drawn.has_value();
}

void LauncherRendezvous::forget_key() {
  if (file_ && removes_key_) file_->remove(key_);
}

/// Hosts the rendezvous, unless another launcher of this host does.
void LauncherRendezvous::host(Clock::time_point end) {
  using std::chrono::milliseconds;
  constexpr milliseconds long_enough{5000};
  const auto begin = Clock::now();
  std::random_device random;
  bool is_reported = false;
  while (!stop_.stop_requested()) {
    const Status hosted = try_to_host();
    if (hosted) return;
    not_hosted_ = hosted.error().message();
    const Listener there = who_listens({address_, options_.endpoint->port}, stop_);
    if (there == Listener::zeromq || stop_.stop_requested()) return;
    if (there == Listener::other && !std::exchange(is_reported, true))
      print_message("{}, by a program that is not a launcher; waiting for the port", not_hosted_);
    // Two launchers that begin to listen at the same moment may both fail.
    if (Clock::now() >= (is_reported ? end : std::min(end, begin + long_enough)))
      throw Error(
          hosted.error().code(), "launch: " + not_hosted_,
          fmt::format("{}; --rdzv-endpoint sets the port, on each host", hosted.error().remedy()));
    pause(there == Listener::other ? milliseconds(500) : milliseconds(20 + random() % 100), stop_);
  }
}

Status LauncherRendezvous::try_to_host() {
  const auto print_once = [this](const std::string& reason) {
    if (refused_.insert(reason).second)
      print_message("refused: {}", in_words_of_the_command(reason));
  };
  auto started = Coordinator::start({.key = key_,
                                     .run = options_.run_id,
                                     .size = options_.nodes,
                                     .address = address_,
                                     .port = options_.endpoint->port,
                                     .timeout = patience_,
                                     .of_launchers = true,
                                     .on_refused = print_once,
                                     .own_rank = options_.node_rank,
                                     .messaging = messaging_});
  if (!started) return started.error();
  coordinator_ = std::move(started.value());
  not_hosted_.clear();
  removes_key_ = true;
  return success();
}

void LauncherRendezvous::join(const std::string& host, Clock::time_point end) {
  for (;;) {
    auto joined = Member::join({.key = key_,
                                .coordinator = tcp_endpoint(host, options_.endpoint->port),
                                .run = options_.run_id,
                                .rank = options_.node_rank,
                                .size = options_.nodes,
                                .interface = address_,
                                .timeout = patience_,
                                .stop = stop_,
                                .messaging = messaging_});
    // The launcher that hosts the rendezvous keeps the key for others, also if it refuses this one.
    const bool is_connected = joined || joined.error().code() == ErrorCode::refused;
    if (is_connected && !stop_.stop_requested()) removes_key_ = coordinator_ != nullptr;
    if (joined) {
      member_ = std::move(joined.value());
      return;
    }
    const bool lasting =
        is_lasting(joined.error().code()) && joined.error().code() != ErrorCode::io;
    if (lasting || Clock::now() >= end) throw not_connected(joined.error());
    pause(std::chrono::milliseconds(100), stop_);
  }
}

Error LauncherRendezvous::not_connected(const Error& why) const {
  if (why.code() == ErrorCode::refused || why.code() == ErrorCode::wrong_key)
    return Error(
        why.code(),
        fmt::format("launch: refused at {}: {}", text_of(*options_.endpoint), why.message()),
        why.remedy());
  std::string message = fmt::format("launch: not all of the {} hosts connected at {}: {}",
                                    options_.nodes, text_of(*options_.endpoint), why.message());
  std::string remedy = fmt::format(
      "start a launcher with the same --nnodes, --rdzv-id and "
      "--rdzv-endpoint on each host; all must have the key of {}",
      file_ ? file_->path().string() : "TROUPE_JOB_KEY");
  if (!not_hosted_.empty()) {
    message += fmt::format("; this host cannot listen there: {}", not_hosted_);
    remedy += fmt::format(
        "; if another program or job uses port {} of this host, give another port in "
        "--rdzv-endpoint, on each host",
        options_.endpoint->port);
  }
  return Error(why.code(), message, remedy);
}

}  // namespace troupe

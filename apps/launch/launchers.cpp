#include "apps/launch/launchers.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <random>
#include <utility>

#include "apps/error_wording.h"
#include "runtime/control/endpoint.h"
#include "runtime/control/interface.h"
#include "runtime/error.h"
#include "runtime/print.h"
#include "runtime/text.h"
#include "runtime/world/world.h"

namespace troupe {
namespace {

/// How long launchers wait for each other at a time, and for a sign of life.
std::chrono::milliseconds attempt_of(const LaunchOptions& options) {
  using std::chrono::seconds;
  return std::clamp<std::chrono::milliseconds>(options.join_timeout, seconds(3), seconds(30));
}

/// Jobs of one user with the same id differ by their endpoints.
std::string job_file_name(const LaunchOptions& options) {
  return file_name_of(
      fmt::format("{}-{}-{}", options.run_id, options.endpoint->host, options.endpoint->port));
}

constexpr std::string_view done_message = "done", ending_message = "ending", lost_prefix = "lost ",
                           failed_prefix = "failed ";

/// The address of this machine that the endpoint means, if it means this machine. A machine's own
/// name often leads to its loopback, where no other host would come: then the first address that
/// others can reach.
std::optional<std::string> own_address_of(const Endpoint& endpoint) {
  const auto interfaces = network_interfaces();
  const auto is_own = [&](const std::string& address) {
    return is_loopback(address) ||
           std::any_of(interfaces.begin(), interfaces.end(),
                       [&](const auto& own) { return own.address == address; });
  };
  const auto addresses = addresses_of_host(endpoint.host);
  const auto found = std::find_if(addresses.begin(), addresses.end(), is_own);
  if (found == addresses.end()) return std::nullopt;
  const bool meant = is_loopback(endpoint.host);
  if (!is_loopback(*found) || meant) return *found;
  for (const auto& own : interfaces)
    if (!is_loopback(own.address)) return own.address;
  return *found;
}

/// The address of --local-addr, which is a name, an address or an interface of this host.
std::string local_address_of(const std::string& given) {
  const auto interfaces = network_interfaces();
  const auto has = [&](const std::string& place) {
    return std::ranges::find(interfaces, place, &NetworkInterface::name) != interfaces.end() ||
           std::ranges::find(interfaces, place, &NetworkInterface::address) != interfaces.end();
  };
  if (has(given)) return address_of_interface(given);
  if (const auto own = own_address_of({given}); own && has(*own)) return *own;
  std::vector<std::string> known;
  known.reserve(interfaces.size());
  for (const auto& [name, address] : interfaces)
    known.push_back(fmt::format("{} ({})", address, name));
  throw Error(ErrorCode::bad_options,
              fmt::format("launch: --local-addr {} is not an address of {}; it has {}", given,
                          host_name(), listed(known, 16)),
              "give one of these, or leave it out");
}

/// Sleeps, until a stop is requested.
void pause(std::chrono::milliseconds time, const std::stop_token& stop) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any().wait_for(lock, stop, time, [] { return false; });
}

}  // namespace

Launchers::Launchers(const LaunchOptions& options, std::stop_token stop)
    : stop_(std::move(stop)),
      attempt_(attempt_of(options)),
      event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  const auto environment = Environment::of_process();
  const auto given_key = environment.get("TROUPE_JOB_KEY");
  if (given_key)
    key_ = JobKey::parse(*given_key);
  else
    take_key(JobFile::of_run(environment, job_file_name(options)));
  place_.host = host_name();
  place_.nodes = options.nodes;
  try {
    const auto end = Clock::now() + options.join_timeout;
    host_rendezvous(options, end);
    join(options, end);
    agree(options);
  } catch (...) {
    forget_key();  // the next job of this name and endpoint makes a new key
    throw;
  }
  member_->open([this](int from, const std::string& body) { on_message(from, body); },
                [this](const PeerLost& lost) { on_lost(lost); });
}

void Launchers::take_key(JobFile file) {
  file_ = std::move(file);
  const auto drawn = file_->create();
  key_ = drawn ? *drawn : file_->key();
  removes_key_ = drawn.has_value();
}

void Launchers::forget_key() {
  if (file_ && removes_key_) file_->remove(key_);
}

Launchers::~Launchers() {
  const bool all = all_done();
  constexpr std::chrono::seconds moment{1};
  // So that the others see that this launcher has ended and is not lost.
  if (member_) static_cast<void>(all ? member_->leave() : member_->leave_at_once(moment));
  member_.reset();  // before the wait, which includes this member
  if (!rendezvous_) return;
  if (all) static_cast<void>(rendezvous_->wait_for_end(attempt_));
  forget_key();
}

/// Hosts the rendezvous if the endpoint is this host, unless another launcher of this host does.
void Launchers::host_rendezvous(const LaunchOptions& options, Clock::time_point end) {
  using std::chrono::milliseconds;
  constexpr milliseconds long_enough{5000};
  const auto own = own_address_of(*options.endpoint);
  own_address_ = !options.local_address.empty() ? local_address_of(options.local_address)
                 : own                          ? *own
                                                : address_towards(options.endpoint->host);
  if (!own) return;
  const auto begin = Clock::now();
  std::random_device random;
  bool is_reported = false;
  while (!stop_.stop_requested()) {
    const Status hosted = try_to_host(options);
    if (hosted) return;
    not_hosted_ = hosted.error().message();
    const Listener there = who_listens({own_address_, options.endpoint->port}, stop_);
    if (there == Listener::zeromq || stop_.stop_requested()) return;
    if (there == Listener::other && !std::exchange(is_reported, true))
      print_error("troupe launch: {}, by a program that is not a launcher; waiting for the port\n",
                  not_hosted_);
    // Two launchers that begin to listen at the same moment may both fail.
    if (Clock::now() >= (is_reported ? end : std::min(end, begin + long_enough)))
      throw Error(
          hosted.error().code(), "launch: " + not_hosted_,
          fmt::format("{}; --rdzv-endpoint sets the port, on each host", hosted.error().remedy()));
    pause(there == Listener::other ? milliseconds(500) : milliseconds(20 + random() % 100), stop_);
  }
}

Status Launchers::try_to_host(const LaunchOptions& options) {
  const auto tell_once = [this](const std::string& reason) {
    if (refused_.insert(reason).second)
      print_error("troupe launch: refused: {}\n", in_words_of_the_command(reason));
  };
  auto started = Coordinator::start({.key = key_,
                                     .run = options.run_id,
                                     .size = options.nodes,
                                     .address = own_address_,
                                     .port = options.endpoint->port,
                                     .timeout = attempt_,
                                     .of_launchers = true,
                                     .on_refused = tell_once,
                                     .own_rank = options.node_rank,
                                     .messaging = messaging_});
  if (!started) return started.error();
  rendezvous_ = std::move(started.value());
  not_hosted_.clear();
  removes_key_ = true;
  return success();
}

void Launchers::join(const LaunchOptions& options, Clock::time_point end) {
  const std::string host = rendezvous_ ? own_address_ : options.endpoint->host;
  for (;;) {
    auto joined = Member::join({.key = key_,
                                .coordinator = tcp_endpoint(host, options.endpoint->port),
                                .run = options.run_id,
                                .rank = options.node_rank,
                                .size = options.nodes,
                                .interface = own_address_,
                                .timeout = attempt_,
                                .stop = stop_,
                                .messaging = messaging_});
    // The launcher that hosts the rendezvous keeps the key for others, also if it refuses this one.
    const bool is_connected = joined || (joined.error().code() == ErrorCode::refused &&
                                         !Member::is_wrong_key(joined.error()));
    if (is_connected && !stop_.stop_requested()) removes_key_ = rendezvous_ != nullptr;
    if (joined) {
      member_ = std::move(joined.value());
      place_.node = member_->rank();
      return;
    }
    const bool lasting =
        is_lasting(joined.error().code()) && joined.error().code() != ErrorCode::io;
    if (lasting || Clock::now() >= end) throw not_connected(options, joined.error());
    pause(std::chrono::milliseconds(100), stop_);
  }
}

Error Launchers::not_connected(const LaunchOptions& options, const Error& why) const {
  if (why.code() == ErrorCode::refused)
    return Error(why.code(),
                 fmt::format("launch: refused at {}:{}: {}", options.endpoint->host,
                             options.endpoint->port, why.message()),
                 why.remedy());
  std::string message = fmt::format("launch: {} hosts did not connect at {}:{}: {}", options.nodes,
                                    options.endpoint->host, options.endpoint->port, why.message());
  std::string remedy = fmt::format(
      "start a launcher with the same --nnodes, --rdzv-id and "
      "--rdzv-endpoint on each host; all must have the key of {}",
      file_ ? file_->path().string() : "TROUPE_JOB_KEY");
  if (!not_hosted_.empty()) {
    message += fmt::format("; this host cannot listen there: {}", not_hosted_);
    remedy += fmt::format(
        "; if another program or job uses port {} of this host, give another port in "
        "--rdzv-endpoint, on each host",
        options.endpoint->port);
  }
  return Error(why.code(), message, remedy);
}

void Launchers::put(const std::string& key, const std::string& value) {
  const Status status = member_->store().put(key, value);
  if (!status) throw Error(status.error());
}

std::string Launchers::get(const std::string& key) {
  auto value = member_->store().get(key, attempt_);
  if (!value) throw Error(value.error());
  return std::move(value.value());
}

/// Exchanges what each launcher publishes about itself, and what one publishes for all.
void Launchers::agree(const LaunchOptions& options) {
  put(fmt::format("node/{}", place_.node), std::to_string(options.processes));
  place_.size = 0;
  for (int node = 0; node < place_.nodes; ++node) {
    if (node == place_.node) place_.first_rank = place_.size;
    place_.size += std::stoi(get(fmt::format("node/{}", node)));
  }
  if (rendezvous_) host_processes_of(options);
  place_.leading_host = member_->peers().front().host();
  place_.run_id = get("run");
  place_.coordinator = get("coordinator");
  rendezvous_node_ = std::stoi(get("rendezvous_node"));
  place_.job_key = key_.text();
  if (place_.node == 0) {
    put("master_address",
        options.master_address.empty() ? member_->peers()[0].address() : options.master_address);
    put("master_port",
        std::to_string(options.master_port != 0 ? options.master_port : free_port()));
  }
  place_.master_address = get("master_address");
  place_.master_port = static_cast<std::uint16_t>(std::stoi(get("master_port")));
}

void Launchers::host_processes_of(const LaunchOptions& options) {
  const std::string run = unique_run_id(options.run_id);
  auto started = Coordinator::start({.key = key_,
                                     .run = run_id_of(run, 0),
                                     .size = place_.size,
                                     .address = own_address_,
                                     .timeout_of_members = true,
                                     .messaging = messaging_});
  processes_ = std::move(started.value());
  put("run", run);
  put("coordinator", processes_->endpoint());
  put("rendezvous_node", std::to_string(place_.node));
}

void Launchers::report_lost(int rank, const std::string& reason) {
  if (processes_) return processes_->report_lost(rank, reason);
  // The launcher that runs the coordinator of the processes acts on it.
  send_to_all(fmt::format("{}{} {}", lost_prefix, rank, reason));
}

void Launchers::send_to_all(const std::string& body) {
  for (int node = 0; node < place_.nodes; ++node)
    if (node != place_.node) member_->send(node, body);
}

void Launchers::announce(const Failure& failure) {
  send_to_all(std::string(failed_prefix) + to_message(failure));
}

void Launchers::announce_ending() { send_to_all(std::string(ending_message)); }

bool Launchers::all_are_ending() const {
  const std::lock_guard lock(mutex_);
  for (int node = 0; node < place_.nodes; ++node)
    if (node != place_.node && !ending_.contains(node) && !done_.contains(node)) return false;
  return true;
}

void Launchers::announce_done() {
  send_to_all(std::string(done_message));
  const std::lock_guard lock(mutex_);
  done_.insert(place_.node);
}

bool Launchers::all_done() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(done_.size()) == place_.nodes;
}

std::vector<Failure> Launchers::take_failures() {
  eventfd_t times = 0;
  ::eventfd_read(event_.get(), &times);
  const std::lock_guard lock(mutex_);
  return std::exchange(failures_, {});
}

void Launchers::on_message(int from, const std::string& body) {
  const std::string_view text = body;
  if (text.starts_with(lost_prefix)) {
    const auto rest = body.substr(lost_prefix.size());
    if (processes_)
      processes_->report_lost(std::atoi(rest.c_str()), rest.substr(rest.find(' ') + 1));
    return;
  }
  if (text == done_message) {
    const std::lock_guard lock(mutex_);
    done_.insert(from);
  } else if (text == ending_message) {
    const std::lock_guard lock(mutex_);
    ending_.insert(from);
  } else if (text.starts_with(failed_prefix)) {
    Failure failure;
    try {
      failure = failure_from(body.substr(failed_prefix.size()));
    } catch (const Error& error) {
      failure.host = member_->peers()[static_cast<std::size_t>(from)].host();
      failure.reason = error.message();
    }
    const std::lock_guard lock(mutex_);
    failures_.push_back(failure);
    ending_.insert(from);
  }
  ::eventfd_write(event_.get(), 1);
}

void Launchers::on_lost(const PeerLost& lost) {
  Failure failure;
  failure.host = lost.host.empty() ? "the host of the endpoint" : "the launcher on " + lost.host;
  failure.reason = lost.reason;
  failure.time = std::chrono::system_clock::now();
  {
    const std::lock_guard lock(mutex_);
    // A launcher whose processes have ended may leave.
    const int node = lost.rank == PeerLost::coordinator ? rendezvous_node_ : lost.rank;
    if (!done_.contains(node)) failures_.push_back(failure);
    if (lost.rank != PeerLost::coordinator) done_.insert(lost.rank);
    // Without the coordinator, launchers no longer learn of each other's ends.
    if (lost.rank == PeerLost::coordinator)
      for (int node = 0; node < place_.nodes; ++node)
        if (node != place_.node) done_.insert(node);
  }
  ::eventfd_write(event_.get(), 1);
}

}  // namespace troupe

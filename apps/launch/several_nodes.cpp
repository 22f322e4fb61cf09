#include "apps/launch/several_nodes.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <utility>

#include "runtime/control/interface.h"
#include "runtime/error.h"
#include "runtime/world/world.h"

namespace troupe {
namespace {

constexpr std::string_view done_message = "done", ending_message = "ending", lost_prefix = "lost ",
                           failed_prefix = "failed ";

}  // namespace

SeveralNodes::SeveralNodes(const LaunchOptions& options, std::stop_token stop)
    : rendezvous_(options, std::move(stop)),
      event_(new_descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) {
  place_.host = host_name();
  place_.nodes = options.nodes;
  place_.node = rendezvous_.member().rank();
  agree(options);
  rendezvous_.member().open([this](int from, const std::string& body) { on_message(from, body); },
                            [this](const PeerLost& lost) { on_lost(lost); });
}

SeveralNodes::~SeveralNodes() { rendezvous_.leave(all_done()); }

void SeveralNodes::put(const std::string& key, const std::string& value) {
  const Status status = rendezvous_.member().store().put(key, value);
  if (!status) throw Error(status.error());
}

std::string SeveralNodes::get(const std::string& key) {
  auto value = rendezvous_.member().store().get(key, rendezvous_.patience());
  if (!value) throw Error(value.error());
  return std::move(value.value());
}

/// Exchanges what each launcher publishes about itself, and what one publishes for all.
void SeveralNodes::agree(const LaunchOptions& options) {
  put(fmt::format("node/{}", place_.node), std::to_string(options.processes));
  place_.size = 0;
  for (int node = 0; node < place_.nodes; ++node) {
    if (node == place_.node) place_.first_rank = place_.size;
    place_.size += std::stoi(get(fmt::format("node/{}", node)));
  }
  if (rendezvous_.hosts_coordinator()) host_processes_of(options);
  place_.leading_host = rendezvous_.member().processes().front().host();
  place_.run_id = get("run");
  place_.coordinator = get("coordinator");
  rendezvous_node_ = std::stoi(get("rendezvous_node"));
  place_.job_key = rendezvous_.key().text();
  if (place_.node == 0) {
    put("master_address", options.master_address.empty()
                              ? rendezvous_.member().processes()[0].address()
                              : options.master_address);
    put("master_port",
        std::to_string(options.master_port != 0 ? options.master_port : free_port()));
  }
  place_.master_address = get("master_address");
  place_.master_port = static_cast<std::uint16_t>(std::stoi(get("master_port")));
}

void SeveralNodes::host_processes_of(const LaunchOptions& options) {
  const std::string run = unique_run_id(options.run_id);
  auto started = Coordinator::start({.key = rendezvous_.key(),
                                     .run = run_id_of(run, 0),
                                     .size = place_.size,
                                     .address = rendezvous_.address(),
                                     .timeout_of_members = true,
                                     .messaging = rendezvous_.messaging()});
  processes_ = std::move(started.value());
  put("run", run);
  put("coordinator", processes_->endpoint());
  put("rendezvous_node", std::to_string(place_.node));
}

void SeveralNodes::report_lost(int rank, const std::string& reason) {
  if (processes_) return processes_->report_lost(rank, reason);
  // The launcher that runs the coordinator of the processes acts on it.
  send_to_all(fmt::format("{}{} {}", lost_prefix, rank, reason));
}

void SeveralNodes::send_to_all(const std::string& body) {
  for (int node = 0; node < place_.nodes; ++node)
    if (node != place_.node) rendezvous_.member().send(node, body);
}

void SeveralNodes::announce(const Failure& failure) {
  send_to_all(std::string(failed_prefix) + to_message(failure));
}

void SeveralNodes::announce_ending() { send_to_all(std::string(ending_message)); }

bool SeveralNodes::all_are_ending() const {
  const std::lock_guard lock(mutex_);
  for (int node = 0; node < place_.nodes; ++node)
    if (node != place_.node && !ending_.contains(node) && !done_.contains(node)) return false;
  return true;
}

void SeveralNodes::announce_done() {
  send_to_all(std::string(done_message));
  const std::lock_guard lock(mutex_);
  done_.insert(place_.node);
}

bool SeveralNodes::all_done() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(done_.size()) == place_.nodes;
}

std::vector<Failure> SeveralNodes::take_failures() {
  eventfd_t times = 0;
  ::eventfd_read(event_.get(), &times);
  const std::lock_guard lock(mutex_);
  return std::exchange(failures_, {});
}

void SeveralNodes::on_message(int from, const std::string& body) {
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
      failure.host = rendezvous_.member().processes()[static_cast<std::size_t>(from)].host();
      failure.reason = error.message();
    }
    const std::lock_guard lock(mutex_);
    failures_.push_back(failure);
    ending_.insert(from);
  }
  ::eventfd_write(event_.get(), 1);
}

void SeveralNodes::on_lost(const PeerLost& lost) {
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

#include "apps/doctor/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "apps/train/world_run.h"
#include "runtime/control/interface.h"
#include "runtime/print.h"
#include "runtime/program.h"
#include "runtime/remote/data_plane.h"
#include "runtime/text.h"
#include "runtime/transport/exchange.h"

namespace troupe {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::size_t most_pairs = 16;
constexpr double time_of_size = 0.05;      ///< seconds for the tensors of one size
constexpr double longest_transfer = 0.15;  ///< seconds; larger tensors are left out
constexpr int pings = 30;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Messages of other processes for the thread that waits. The member's thread puts them.
class Mailbox {
 public:
  void put(std::string message) {
    const std::lock_guard lock(mutex_);
    messages_.push_back(std::move(message));
    changed_.notify_one();
  }
  /// Ends every wait, current and later.
  void fail(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = error;
    changed_.notify_one();
  }
  /// `what` is missing where none comes. Without patience it waits until a process is lost.
  std::string take(std::optional<std::chrono::milliseconds> patience, const std::string& what) {
    std::unique_lock lock(mutex_);
    const auto ready = [&] { return !messages_.empty() || error_; };
    if (!patience)
      changed_.wait(lock, ready);
    else if (!changed_.wait_for(lock, *patience, ready))
      throw Error(ErrorCode::timed_out,
                  fmt::format("{} did not arrive within {:.0f} s", what, patience->count() / 1e3),
                  "check that no firewall drops packets between the hosts");
    if (error_) throw *error_;
    std::string message = std::move(messages_.front());
    messages_.pop_front();
    return message;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> messages_;
  std::optional<Error> error_;
};

/// What the member's thread uses, also after the measurement has ended with an error.
struct Arrivals {
  Mailbox commands, answers;
  std::mutex mutex;
  DataPlane* plane = nullptr;  ///< null once it is gone

  void lost(const PeerLost& peer) {
    const Error error(ErrorCode::peer_lost, to_string(peer), "look at the output of that process");
    {
      const std::lock_guard lock(mutex);
      if (plane) plane->fail(error);
    }
    commands.fail(error);
    answers.fail(error);
  }
};

/// "eth0 (10.0.0.7)".
std::string interface_of(const std::string& address) {
  for (const NetworkInterface& interface : network_interfaces())
    if (interface.address == address) return fmt::format("{} ({})", interface.name, address);
  return address;
}

/// One process's part of the measurement. Rank 0 names the pairs one after another; the first of a
/// pair times, and tells the other one what it will send.
class Probe {
 public:
  Probe(Member& member, const TransportOptions& options) : member_(member), options_(options) {
    member_.open(
        [&member, arrivals = arrivals_](int from, const std::string& body) {
          if (body == "ping") return member.send(from, "pong");
          (body == "pong" ? arrivals->answers : arrivals->commands).put(body);
        },
        [arrivals = arrivals_](const PeerLost& peer) { arrivals->lost(peer); });
    if (const Status all = member_.barrier("network/connect"); !all) throw all.error();
    plane_ = std::move(DataPlane::connect(member_, options_).value());
    const std::lock_guard lock(arrivals_->mutex);
    arrivals_->plane = plane_.get();
  }
  ~Probe() {
    const std::lock_guard lock(arrivals_->mutex);
    arrivals_->plane = nullptr;
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  /// In rank 0.
  std::vector<PairSpeed> measure(const std::vector<ProcessPair>& pairs) {
    std::vector<PairSpeed> speeds;
    speeds.reserve(pairs.size());
    for (const ProcessPair& pair : pairs) speeds.push_back(speed_of(pair));
    for (int rank = 1; rank < member_.size(); ++rank)
      member_.send(rank, json{{"do", "end"}}.dump());
    return speeds;
  }
  /// In the other ranks: does what they are told until the end.
  void follow() {
    while (true) {
      const json command = json::parse(arrivals_->commands.take({}, {}));
      if (command.at("do") == "end") return;
      if (command.at("do") == "measure")
        member_.send(0, to_json(measure_to(command.at("to"))).dump());
      else
        receive(command);
    }
  }
  /// Gloo loses tensors under way when one side closes its connections: all close them together.
  void end() {
    if (const Status all = member_.barrier("network/end"); !all) throw all.error();
  }

 private:
  static json to_json(const PairSpeed& speed) {
    return {{"transport", speed.transport},
            {"message", speed.message_time},
            {"tensor", speed.tensor_time},
            {"rates", speed.rates},
            {"interface", speed.interface}};
  }
  void receive(const json& command) {
    const DataPlane::Route& route = plane_->route(command.at("from"), Device::cpu());
    answer(*route.communicator, route.rank, {.shape = {command.at("elements").get<std::int64_t>()}},
           command.at("count"));
  }

  PairSpeed speed_of(const ProcessPair& pair) {
    PairSpeed speed;
    if (pair.from == 0) {
      speed = measure_to(pair.to);
    } else {
      member_.send(pair.from, json{{"do", "measure"}, {"to", pair.to}}.dump());
      json told = next_of(pair);
      // Rank 0 may be the other one of the pair.
      for (; told.contains("do"); told = next_of(pair)) receive(told);
      speed = {.transport = told.at("transport"),
               .message_time = told.at("message"),
               .tensor_time = told.at("tensor"),
               .rates = told.at("rates"),
               .interface = told.at("interface")};
    }
    speed.pair = pair;
    return speed;
  }
  json next_of(const ProcessPair& pair) {
    return json::parse(arrivals_->commands.take(
        options_.timeout, fmt::format("the times of rank {} to rank {}", pair.from, pair.to)));
  }

  PairSpeed measure_to(int to) {
    PairSpeed speed{.transport = std::string(plane_->route(to, Device::cpu()).transport->title),
                    .message_time = message_time(to),
                    .tensor_time = shortest_time(to)};
    double expected = speed.tensor_time;  // of the next size, if it grows with the bytes
    for (std::size_t i = 0; i < bulk_sizes.size(); ++i) {
      if (i > 0)
        expected *=
            static_cast<double>(bulk_sizes[i].bytes) / static_cast<double>(bulk_sizes[i - 1].bytes);
      if (expected > longest_transfer) break;
      expected = seconds_each(to, bulk_sizes[i].bytes, 2);
      speed.rates[i] = static_cast<double>(bulk_sizes[i].bytes) / expected;
    }
    const auto rank = static_cast<std::size_t>(member_.rank());
    speed.interface = interface_of(member_.processes()[rank].address());
    return speed;
  }

  double message_time(int to) {
    std::vector<double> times;
    for (int i = 0; i < pings; ++i) {
      const auto start = Clock::now();
      member_.send(to, "ping");
      arrivals_->answers.take(options_.timeout, fmt::format("the answer of rank {}", to));
      times.push_back(since(start));
    }
    std::ranges::nth_element(times, times.begin() + pings / 2);
    return times[pings / 2];
  }

  /// Of three, because another program may interrupt one.
  double shortest_time(int to) {
    double shortest = seconds_each(to, 1024, 1);
    for (int i = 0; i < 2; ++i) shortest = std::min(shortest, seconds_each(to, 1024, 1));
    return shortest;
  }
  /// Of a tensor, with its answer if none is sent ahead of it.
  double seconds_each(int to, std::size_t bytes, int ahead) {
    const Tensor tensor = Tensor::zeros({static_cast<std::int64_t>(bytes / sizeof(float))});
    const double first = send(to, tensor, 1, ahead);
    const int count = static_cast<int>(std::clamp(time_of_size / first, 1.0, 1000.0));
    return count == 1 ? first : send(to, tensor, count, ahead) / count;
  }
  double send(int to, const Tensor& tensor, int count, int ahead) {
    member_.send(to, json{{"do", "receive"},
                          {"from", member_.rank()},
                          {"elements", tensor.element_count()},
                          {"count", count + 1}}
                         .dump());
    const DataPlane::Route& route = plane_->route(to, Device::cpu());
    // The peer is ready when it has answered, and both have memory for the tensors.
    send_answered(*route.communicator, route.rank, tensor, 1, 1);
    const auto start = Clock::now();
    send_answered(*route.communicator, route.rank, tensor, count, ahead);
    return since(start);
  }

  Member& member_;
  const TransportOptions options_;
  const std::shared_ptr<Arrivals> arrivals_ = std::make_shared<Arrivals>();
  std::unique_ptr<DataPlane> plane_;
};

/// The network that each host sends through, and how to choose another one.
std::string networks_text(const std::vector<PairSpeed>& speeds,
                          const std::vector<std::string>& names) {
  std::set<std::string> used;
  for (const PairSpeed& speed : speeds)
    used.insert(
        fmt::format("{}: {}", names[static_cast<std::size_t>(speed.pair.from)], speed.interface));
  std::string text = "network  " + listed(std::vector<std::string>(used.begin(), used.end()), 8);
  std::set<std::string> up;
  for (const NetworkInterface& interface : network_interfaces())
    if (interface.name != "lo") up.insert(interface.name);
  if (used.size() > 1 && up.size() > 1)
    text += fmt::format("; parallel.interface chooses among {}",
                        listed(std::vector<std::string>(up.begin(), up.end()), 8));
  return text + "\n";
}

json as_json(const std::vector<PairSpeed>& speeds, const std::vector<std::string>& names,
             const Findings& findings) {
  json document{{"processes", names.size()}, {"pairs", json::array()}, {"warnings", json::array()}};
  for (const PairSpeed& speed : speeds) {
    json rates = json::object();
    for (std::size_t i = 0; i < bulk_sizes.size(); ++i)
      if (speed.rates[i] > 0) rates[std::to_string(bulk_sizes[i].bytes)] = speed.rates[i];
    document["pairs"].push_back({{"from", speed.pair.from},
                                 {"to", speed.pair.to},
                                 {"from_host", names[static_cast<std::size_t>(speed.pair.from)]},
                                 {"to_host", names[static_cast<std::size_t>(speed.pair.to)]},
                                 {"transport", speed.transport},
                                 {"interface", speed.interface},
                                 {"message_seconds", speed.message_time},
                                 {"tensor_seconds", speed.tensor_time},
                                 {"bytes_per_second", rates}});
  }
  for (const Finding& finding : findings) document["warnings"].push_back(finding.message);
  return document;
}

void report(WorldRun& run, const std::vector<PairSpeed>& speeds, bool as_document) {
  std::vector<std::string> names;
  for (const ProcessInfo& process : run.member().processes()) names.push_back(process.host());
  const Findings findings = slow_pairs(speeds, names);
  if (as_document) return print_out("{}\n", as_json(speeds, names, findings).dump(2));
  std::string text = run.heading() + "\n" + networks_text(speeds, names) + "\n";
  text += speed_table(speeds, names);
  if (speeds.size() < names.size())
    text += fmt::format("{} of {} neighbours measured\n", speeds.size(), names.size());
  for (const Finding& finding : findings)
    text +=
        fmt::format("warning: {}: {}\n  try: {}\n", finding.check, finding.message, finding.remedy);
  if (findings.empty() && speeds.size() > 2) text += "no pair is much slower than the others\n";
  print_out("{}", text);
}

void take_part(WorldRun& run, const TransportOptions& options, bool as_document) {
  std::vector<PairSpeed> speeds;
  {
    Probe probe(run.member(), options);
    if (run.leads()) {
      std::vector<std::string> hosts;
      for (const ProcessInfo& process : run.member().processes())
        hosts.push_back(process.identity());
      speeds = probe.measure(pairs_to_measure(hosts, most_pairs));
    } else {
      probe.follow();
    }
    probe.end();
  }
  if (run.leads()) report(run, speeds, as_document);
  run.leave();
}

}  // namespace

int measure_network(const Options& options, bool json) {
  const Environment environment = Environment::of_process();
  const auto world = world_from_environment(environment);
  if (!world || world->size == 1)
    throw Error(ErrorCode::usage,
                "doctor --network needs at least two processes, but it runs in one",
                fmt::format("{0} launch --standalone --nproc-per-node 2 -- doctor --network, or "
                            "srun {0} doctor --network",
                            program_name()));
  std::unique_ptr<WorldRun> run;
  try {
    run = std::make_unique<WorldRun>(*world, environment, options, std::stop_token());
  } catch (const Error& error) {
    if (error.code() == ErrorCode::peer_lost) return end_silently(error, options.own);
    throw;
  }
  try {
    take_part(*run, options.transport, json);
    return exit_done;
  } catch (const Error& error) {
    return run->end_with(error);
  }
}

}  // namespace troupe

// What is measured between processes, and how it is shown.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "apps/doctor/network.h"
#include "runtime/text.h"

namespace troupe {
namespace {

/// `count` of the pairs, spread evenly.
std::vector<ProcessPair> spread(const std::vector<ProcessPair>& pairs, std::size_t count) {
  std::vector<ProcessPair> some;
  for (std::size_t i = 0; i < count; ++i) some.push_back(pairs[i * pairs.size() / count]);
  return some;
}

std::string number(double value) { return fmt::format("{:.{}f}", value, value < 100 ? 2 : 0); }

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::string place(int rank, const std::vector<std::string>& names) {
  return fmt::format("rank {} on {}", rank, names[static_cast<std::size_t>(rank)]);
}

/// The rate of the largest tensors that all pairs have sent.
std::optional<std::size_t> common_size(const std::vector<const PairSpeed*>& speeds) {
  for (std::size_t size = bulk_sizes.size(); size-- > 0;)
    if (std::ranges::all_of(speeds, [&](const auto* speed) { return speed->rates[size] > 0; }))
      return size;
  return std::nullopt;
}

void add_slow(const std::vector<const PairSpeed*>& alike, const std::vector<std::string>& names,
              Findings& findings) {
  constexpr double factor = 3;
  const auto find = [&](const std::string& what, double (*text_of)(double), const char* unit,
                        const auto& time_of) {
    std::vector<double> times;
    for (const PairSpeed* speed : alike) times.push_back(time_of(*speed));
    const double usual = median(times);
    for (std::size_t i = 0; i < alike.size(); ++i) {
      if (times[i] < factor * usual) continue;
      const auto& [from, to] = alike[i]->pair;
      findings.push_back(
          {Finding::Severity::warning, "network",
           fmt::format("{} from {} to {}: {} {}; the median of {} is {} {}", what,
                       place(from, names), place(to, names), number(text_of(times[i])), unit,
                       alike[i]->transport, number(text_of(usual)), unit),
           "measure again; if it stays slow, look for other programs there, or set "
           "parallel.interface to another network"});
    }
  };
  const auto microseconds = [](double seconds) { return seconds * 1e6; };
  const auto rate = [](double seconds_per_byte) { return 1e-9 / seconds_per_byte; };
  find("messages", microseconds, "µs", [](const PairSpeed& s) { return s.message_time; });
  find("tensors of 1 KiB", microseconds, "µs", [](const PairSpeed& s) { return s.tensor_time; });
  if (const auto size = common_size(alike))
    find(fmt::format("tensors of {}", bulk_sizes[*size].name), rate, "GB/s",
         [&](const PairSpeed& s) { return 1 / s.rates[*size]; });
}

}  // namespace

std::vector<ProcessPair> pairs_to_measure(const std::vector<std::string>& hosts, std::size_t most) {
  std::vector<ProcessPair> between, within;
  const int size = static_cast<int>(hosts.size());
  for (int from = 0; from < size && size > 1; ++from) {
    const int to = (from + 1) % size;
    const bool same = hosts[static_cast<std::size_t>(from)] == hosts[static_cast<std::size_t>(to)];
    (same ? within : between).push_back({from, to});
  }
  const std::size_t first = std::min(between.size(), most);
  std::vector<ProcessPair> pairs = spread(between, first);
  std::ranges::move(spread(within, std::min(within.size(), most - first)),
                    std::back_inserter(pairs));
  std::ranges::sort(pairs, {}, &ProcessPair::from);
  return pairs;
}

Findings slow_pairs(const std::vector<PairSpeed>& speeds, const std::vector<std::string>& names) {
  std::map<std::string, std::vector<const PairSpeed*>> by_transport;
  for (const PairSpeed& speed : speeds) by_transport[speed.transport].push_back(&speed);
  Findings findings;
  for (const auto& [transport, alike] : by_transport)
    if (alike.size() >= 3) add_slow(alike, names, findings);
  return findings;
}

std::string speed_table(const std::vector<PairSpeed>& speeds,
                        const std::vector<std::string>& names) {
  std::size_t widest = 5;
  const auto hosts_of = [&](const PairSpeed& speed) {
    const std::string& from = names[static_cast<std::size_t>(speed.pair.from)];
    const std::string& to = names[static_cast<std::size_t>(speed.pair.to)];
    return from == to ? from : fmt::format("{} to {}", from, to);
  };
  for (const PairSpeed& speed : speeds) widest = std::max(widest, hosts_of(speed).size());
  std::string text = fmt::format("{:>4} {:>4}  {:{}}  {:13}  {:>10}  {:>8}", "from", "to", "hosts",
                                 widest, "transport", "message µs", "1 KiB µs");
  for (const BulkSize& size : bulk_sizes) text += fmt::format("  {:>6}", size.name);
  text += " GB/s\n";
  for (const PairSpeed& speed : speeds) {
    text += fmt::format("{:>4} {:>4}  {:{}}  {:13}  {:>10.1f}  {:>8.1f}", speed.pair.from,
                        speed.pair.to, hosts_of(speed), widest, speed.transport,
                        speed.message_time * 1e6, speed.tensor_time * 1e6);
    for (const double rate : speed.rates)
      text += rate > 0 ? fmt::format("  {:>6.2f}", rate / 1e9) : fmt::format("  {:>6}", "-");
    text += "\n";
  }
  return text;
}

}  // namespace troupe

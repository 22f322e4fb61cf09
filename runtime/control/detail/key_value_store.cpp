#include "runtime/control/detail/key_value_store.h"

#include <algorithm>

namespace troupe::control {

void KeyValueStore::put(Ticket from, const std::string& key, std::string value) {
  const std::string& kept = values_[key] = std::move(value);
  answer_(from, {}, {});
  if (const auto waiting = readers_.extract(key))
    for (const Ticket& reader : waiting.mapped()) answer_(reader, kept, {});
  if (const auto line = claims_.extract(key))
    std::for_each(line.mapped().begin() + 1, line.mapped().end(),
                  [&](const Ticket& one) { answer_(one, kept, {}); });
}

void KeyValueStore::get(Ticket from, const std::string& key) {
  if (const auto value = values_.find(key); value != values_.end())
    answer_(from, value->second, {});
  else if (!closed_.empty())
    answer_(from, {}, closed_);
  else
    readers_[key].push_back(from);
}

void KeyValueStore::claim(Ticket from, const std::string& key) {
  if (const auto value = values_.find(key); value != values_.end())
    return answer_(from, value->second, {});
  Line& line = claims_[key];
  if (!line.empty() && line.front().rank == from.rank) return answer_(from, {}, {});
  line.push_back(from);
  if (line.size() == 1) answer_(from, {}, {});
}

/// Answers the tickets that have become first of their lines.
template <class IsGone>
void KeyValueStore::leave_lines(IsGone is_gone) {
  for (auto& [key, line] : claims_) {
    const bool was_first = is_gone(line.front());
    std::erase_if(line, is_gone);
    if (was_first && !line.empty()) answer_(line.front(), {}, {});
  }
  std::erase_if(claims_, [](const auto& claim) { return claim.second.empty(); });
}

void KeyValueStore::gone(int rank) {
  leave_lines([rank](const Ticket& one) { return one.rank == rank; });
}

void KeyValueStore::cancel(Ticket from, const std::string& key) {
  leave_lines([from](const Ticket& one) { return one.rank == from.rank && one.id == from.id; });
  const auto waiting = readers_.find(key);
  if (waiting == readers_.end()) return;
  std::erase_if(waiting->second, [&](const Ticket& reader) {
    return reader.rank == from.rank && reader.id == from.id;
  });
  if (waiting->second.empty()) readers_.erase(waiting);
}

void KeyValueStore::arrive(Ticket from, const std::string& barrier, int size) {
  if (!barriers_closed_.empty()) return answer_(from, {}, barriers_closed_);
  Arrivals& here = barriers_[barrier];
  here[from.rank].push_back(from);
  if (static_cast<int>(here.size()) < size) return;
  for (const auto& [rank, tickets] : here)
    for (const Ticket& one : tickets) answer_(one, {}, {});
  barriers_.erase(barrier);
}

void KeyValueStore::cancel_arrival(Ticket from, const std::string& barrier) {
  const auto here = barriers_.find(barrier);
  if (here == barriers_.end()) return;
  const auto own = here->second.find(from.rank);
  if (own == here->second.end()) return;
  std::erase_if(own->second, [&](const Ticket& one) { return one.id == from.id; });
  if (own->second.empty()) here->second.erase(own);
  if (here->second.empty()) barriers_.erase(here);
}

void KeyValueStore::close(const std::string& why) {
  if (closed_.empty()) closed_ = why;
  for (const auto& [key, tickets] : readers_)
    for (const Ticket& reader : tickets) answer_(reader, {}, closed_);
  readers_.clear();
  close_barriers(why);
}

void KeyValueStore::close_barriers(const std::string& why) {
  if (barriers_closed_.empty()) barriers_closed_ = why;
  for (const auto& [name, here] : barriers_)
    for (const auto& [rank, tickets] : here)
      for (const Ticket& one : tickets) answer_(one, {}, barriers_closed_);
  barriers_.clear();
}

void KeyValueStore::clear() {
  values_.clear();
  readers_.clear();
  claims_.clear();
  barriers_.clear();
  closed_.clear();
  barriers_closed_.clear();
}

}  // namespace troupe::control

#pragma once
// Reading of the JSON in model files: each access checks the type, and errors name the place. For
// the reader of .pt2 files alone, since it includes the JSON library.

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "runtime/error.h"

namespace troupe::graph {

/// A value of a document with its place, such as "'net.pt2': nodes[3].inputs[1]". The document must
/// outlive it.
class JsonAccess {
 public:
  JsonAccess(const nlohmann::json& value, std::string where)
      : value_(&value), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  bool has(const char* key) const {
    return value_->is_object() && value_->contains(key) && !(*value_)[key].is_null();
  }
  JsonAccess at(const char* key) const {
    if (!value_->is_object()) fail("an object is expected");
    const auto found = value_->find(key);
    if (found == value_->end()) fail(fmt::format("'{}' is missing", key));
    return {*found, place(key)};
  }
  /// The items of a list, made one by one: a list may be as long as its file.
  class Items;
  Items items() const;
  std::vector<std::pair<std::string, JsonAccess>> members() const {
    if (!value_->is_object()) fail("an object is expected");
    std::vector<std::pair<std::string, JsonAccess>> result;
    for (const auto& [key, value] : value_->items())
      result.emplace_back(key, JsonAccess(value, place(key)));
    return result;
  }
  /// The key and the value of an object's first member: how PyTorch writes one of several types.
  std::pair<std::string, JsonAccess> choice() const {
    const auto all = members();
    if (all.empty()) fail("it is empty");
    return all.front();
  }
  std::int64_t integer() const {
    const bool huge = value_->is_number_unsigned() &&
                      value_->get<std::uint64_t>() >
                          static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (!value_->is_number_integer() || huge) fail("a whole number is expected");
    return value_->get<std::int64_t>();
  }
  /// PyTorch writes infinities and NaN as words.
  double number() const {
    if (value_->is_number()) return value_->get<double>();
    if (*value_ == "Infinity") return std::numeric_limits<double>::infinity();
    if (*value_ == "-Infinity") return -std::numeric_limits<double>::infinity();
    fail("a number is expected");
  }
  bool boolean() const {
    if (!value_->is_boolean()) fail("true or false is expected");
    return value_->get<bool>();
  }
  const std::string& text() const {
    if (!value_->is_string()) fail("text is expected");
    return value_->get_ref<const std::string&>();
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::bad_file, fmt::format("{}: {}", where_, what),
                "the file is damaged, or a newer PyTorch wrote it");
  }

 private:
  std::string place(const std::string& key) const { return fmt::format("{}.{}", where_, key); }

  const nlohmann::json* value_;
  std::string where_;
};

class JsonAccess::Items {
 public:
  class Iterator {
   public:
    Iterator(const Items& items, std::size_t at) : items_(&items), at_(at) {}
    JsonAccess operator*() const { return (*items_)[at_]; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    const Items* items_;
    std::size_t at_;
  };

  explicit Items(JsonAccess list) : list_(std::move(list)) {}
  std::size_t size() const { return list_.value_->size(); }
  bool empty() const { return size() == 0; }
  JsonAccess operator[](std::size_t i) const {
    return {(*list_.value_)[i], fmt::format("{}[{}]", list_.where_, i)};
  }
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size()}; }

 private:
  JsonAccess list_;
};

inline JsonAccess::Items JsonAccess::items() const {
  if (!value_->is_array()) fail("a list is expected");
  return Items(*this);
}

}  // namespace troupe::graph

#pragma once
// A .pt2 that tests change.

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "graph_files.h"
#include "ops/graph/pt2.h"
#include "runtime/error.h"
#include "runtime/file/zip.h"
#include "tests/unit/runtime/file/zip_text.h"

namespace troupe::graph {

using nlohmann::json;

/// A golden .pt2 that a test changes and reads again.
class Archive {
 public:
  explicit Archive(const std::string& model) {
    const ZipArchive zip = ZipArchive::open(testing_ops::graph_file(model));
    for (const ZipMember& member : zip.members())
      members_[member.name] = zip.content(member, UINT64_MAX).text();
    stem_ = model + "/";
  }
  std::string& member(const std::string& name) { return members_[stem_ + name]; }
  void remove(const std::string& name) { members_.erase(stem_ + name); }
  void pack(const std::string& name) { packed_.insert(stem_ + name); }
  void change(const std::string& name, const std::function<void(json&)>& change) {
    json document = json::parse(member(name));
    change(document);
    member(name) = document.dump();
  }
  void change_model(const std::function<void(json&)>& edit) { change("models/model.json", edit); }
  void change_nodes(const std::function<void(json&)>& edit) {
    change_model([&](json& model) { edit(model["graph_module"]["graph"]["nodes"]); });
  }
  Graph read() const {
    std::vector<test::MadeMember> entries;
    for (const auto& [name, content] : members_)
      entries.push_back({.name = name, .content = content, .deflated = packed_.contains(name)});
    const std::string bytes = test::zip_of(entries);
    return parse_pt2(std::as_bytes(std::span(bytes)), "'net.pt2'");
  }
  std::string error() const {
    try {
      (void)read();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_file) << error.what();
      EXPECT_FALSE(error.remedy().empty()) << error.what();
      return error.what();
    }
    return "no error";
  }

 private:
  std::map<std::string, std::string> members_;
  std::set<std::string> packed_;
  std::string stem_;
};

inline json& node(json& nodes, const std::string& name) {
  for (json& one : nodes)
    if (one["name"] == name) return one;
  throw std::runtime_error("no node " + name);
}

inline json& argument(json& node, const std::string& name) {
  for (json& input : node["inputs"])
    if (input["name"] == name) return input["arg"];
  node["inputs"].push_back({{"name", name}, {"arg", json::object()}, {"kind", 1}});
  return node["inputs"].back()["arg"];
}

}  // namespace troupe::graph

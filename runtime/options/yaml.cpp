// parse_yaml and read_yaml: yaml-cpp's events become a tree with positions.
#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "runtime/error.h"
#include "runtime/options/tree.h"
#include "runtime/text.h"

namespace troupe {
namespace {

class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(const std::string& source, bool whole_position)
      : source_(source), whole_position_(whole_position) {
    root_.where = source;  // of a document with nothing in it
  }

  OptionTree take() { return std::move(root_); }

  std::string where(const YAML::Mark& mark) const {
    if (whole_position_ || mark.is_null()) return source_;
    return fmt::format("{}:{}:{}", source_, mark.line + 1, mark.column + 1);
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0)
      refuse(mark, "a second YAML document begins", "keep one document per file");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    add(leaf(mark, OptionTree::Kind::null));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse_anchor(mark, 1); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    OptionTree tree = leaf(mark, OptionTree::Kind::scalar);
    tree.scalar = value;
    tree.quoted = tag == "!";  // yaml-cpp's mark of a scalar in quotes
    add(std::move(tree));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, OptionTree::Kind::list);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, OptionTree::Kind::map);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    OptionTree tree;
    bool has_key = false;
    std::string key, key_where;
  };

  [[noreturn]] void refuse(const YAML::Mark& mark, std::string_view what, std::string remedy) {
    throw Error(ErrorCode::bad_options, fmt::format("{}: {}", where(mark), what),
                std::move(remedy));
  }
  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor)
      refuse(mark, "anchors and aliases are not supported", "write the value out");
  }
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    if (!tag.empty() && tag != "?" && tag != "!")
      refuse(mark, fmt::format("the tag {} is not supported", printable(tag)), "remove the tag");
  }
  OptionTree leaf(const YAML::Mark& mark, OptionTree::Kind kind) const {
    OptionTree tree;
    tree.kind = kind;
    tree.where = where(mark);
    return tree;
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            OptionTree::Kind kind) {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    if (frames_.size() >= max_options_depth)
      refuse(mark, fmt::format("nested deeper than {} levels", max_options_depth),
             "options nest three levels at most");
    frames_.push_back({leaf(mark, kind)});
  }
  void close() {
    OptionTree tree = std::move(frames_.back().tree);
    frames_.pop_back();
    add(std::move(tree));
  }

  void add(OptionTree tree) {
    if (frames_.empty()) {
      root_ = std::move(tree);
      return;
    }
    Frame& frame = frames_.back();
    if (frame.tree.kind == OptionTree::Kind::list)
      frame.tree.items.push_back(std::move(tree));
    else if (frame.has_key)
      add_entry(frame, std::move(tree));
    else
      begin_entry(frame, tree);
  }
  void begin_entry(Frame& frame, const OptionTree& key) {
    if (key.kind != OptionTree::Kind::scalar)
      throw Error(ErrorCode::bad_options, fmt::format("{}: this key is not a name", key.where),
                  "write key: value");
    if (frame.tree.find(key.scalar))
      throw Error(ErrorCode::bad_options,
                  fmt::format("{}: the key {} appears twice", key.where, printable(key.scalar)),
                  "remove one of them");
    if (frame.tree.entries.size() >= max_options_entries)
      throw Error(ErrorCode::bad_options,
                  fmt::format("{}: more than {} keys in a map", key.where, max_options_entries),
                  "check that this is an options file");
    frame.has_key = true;
    frame.key = key.scalar;
    frame.key_where = key.where;
  }
  static void add_entry(Frame& frame, OptionTree value) {
    frame.has_key = false;
    frame.tree.entries.push_back({std::move(frame.key), frame.key_where, std::move(value)});
  }

  const std::string& source_;
  bool whole_position_;
  int documents_ = 0;
  std::vector<Frame> frames_;
  OptionTree root_;
};

/// Whether a tab indents this line, from 0. YAML forbids it; yaml-cpp reports something else.
bool is_indented_by_tab(std::string_view text, int line) {
  for (; line > 0 && text.find('\n') != text.npos; --line) text.remove_prefix(text.find('\n') + 1);
  return text.substr(0, text.find_first_not_of(" \t")).find('\t') != text.npos;
}

Error too_large(const std::string& source) {
  return {
      ErrorCode::bad_options,
      fmt::format("{}: larger than the {} bytes that options may have", source, max_options_bytes),
      "check that this is an options file"};
}

}  // namespace

OptionTree parse_yaml(std::string_view text, const std::string& source, bool whole_position) {
  if (text.size() > max_options_bytes) throw too_large(source);
  TreeBuilder builder(source, whole_position);
  // yaml-cpp lets a quote that is never closed pass where a line end follows.
  text = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
  std::istringstream stream{std::string(text)};
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    if (is_indented_by_tab(text, error.mark.line))
      throw Error(ErrorCode::bad_options,
                  fmt::format("{}: a tab indents this line", builder.where(error.mark)),
                  "YAML permits only spaces there");
    if (error.msg.starts_with("alias not found"))
      throw Error(ErrorCode::bad_options,
                  fmt::format("{}: * begins an alias in YAML", builder.where(error.mark)),
                  whole_position ? "put the pattern in double quotes and the whole in single ones: "
                                   "'KEY=[\"*\"]'"
                                 : "quote the pattern: '*'");
    throw Error(ErrorCode::bad_options,
                fmt::format("{}: this is not YAML: {}", builder.where(error.mark), error.msg),
                "check indentation, brackets and quotes there");
  }
  return builder.take();
}

OptionTree read_yaml(const std::filesystem::path& path, const std::string& remedy) {
  std::error_code ignored;
  const auto there = std::filesystem::status(path, ignored);
  // A pipe without a writer would be waited for.
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there))
    throw Error(ErrorCode::bad_options,
                fmt::format("{}: this is {}, not a file", path.string(),
                            std::filesystem::is_directory(there) ? "a folder" : "a device or pipe"),
                remedy);
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw Error(ErrorCode::bad_options,
                fmt::format("{}: cannot be opened: {}", path.string(), std::strerror(errno)),
                remedy);
  std::string text(max_options_bytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad())
    throw Error(ErrorCode::bad_options, fmt::format("{}: cannot be read", path.string()), remedy);
  text.resize(static_cast<std::size_t>(file.gcount()));
  return parse_yaml(text, path.string());
}

}  // namespace troupe

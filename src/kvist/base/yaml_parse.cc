// Parses text to a tree. Limits are checked at each of yaml-cpp's events, so that nothing unbounded is built.
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <exception>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "kvist/base/input_file.h"
#include "kvist/base/utf8.h"
#include "kvist/base/yaml.h"
#include "kvist/base/yaml_document.h"

namespace kvist {
namespace {

constexpr std::size_t kMaxBytes = 1U << 20;
constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMaxValues = 100'000;

// yaml-cpp takes some control characters for the end of the file, and would silently ignore the rest.
Result<void> check_characters(std::string_view text, const std::string& name) {
  int line = 1;
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::size_t length = utf8_sequence_length(text.substr(i));
    if (length == 0) return fail(ErrorCode::kInvalidArgument, fmt::format("{}:{}: not valid UTF-8", name, line));
    if ((byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7F) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}:{}: control character 0x{:02x} is not allowed", name, line, byte));
    }
    if (byte == '\n') ++line;
    i += length;
  }
  return {};
}

constexpr std::string_view kTabHint = "; the line begins with a tab, where YAML wants spaces";

/// Whether there is a tab before the first letter of this line, counted from 0.
bool is_indented_by_tab(std::string_view text, int line) {
  for (; line > 0; --line) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return false;
    text.remove_prefix(end + 1);
  }
  return text.substr(0, text.find_first_not_of(" \t")).contains('\t');
}

}  // namespace

std::string YamlNode::Document::path_of(std::size_t index) const {
  std::string path;
  for (; index != 0; index = values[index].parent) {
    const Value& value = values[index];
    std::string step = value.key.empty() && values[value.parent].kind == Kind::kSequence
                           ? fmt::format("[{}]", value.position)
                           : value.key;
    if (!path.empty() && path.front() != '[') step += '.';
    path.insert(0, step);
  }
  return path;
}

/// Turns events into values. It refuses by throwing yaml-cpp's own exception, which parse() catches like all others.
class YamlNode::Builder final : public YAML::EventHandler {
 public:
  explicit Builder(Document& document) : document_(document) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) refuse(mark, "a second document begins here; one file holds one");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (key_expected()) refuse(mark, "a key must be plain text");
    add(mark, "", anchor, Document::Kind::kNull);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override { refuse_anchor(mark); }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    if (key_expected()) {
      check(mark, tag, anchor);
      take_key(mark, text);
      return;
    }
    Document::Value& value = add(mark, tag, anchor, Document::Kind::kScalar);
    value.scalar = text;
    value.quoted = tag == "!";
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(mark, tag, anchor, Document::Kind::kSequence);
  }
  void OnSequenceEnd() override { open_.pop_back(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open(mark, tag, anchor, Document::Kind::kMap);
  }
  void OnMapEnd() override { open_.pop_back(); }

 private:
  struct Open {
    std::size_t index = 0;
    std::set<std::string, std::less<>> keys;
    bool has_key = false;  // the next value belongs to `key`
    std::string key;
    int key_line = 0;
  };

  [[noreturn]] static void refuse(const YAML::Mark& mark, const std::string& what) {
    throw YAML::ParserException(mark, what);
  }
  [[noreturn]] static void refuse_anchor(const YAML::Mark& mark) {
    refuse(mark, "anchors and aliases are not supported; write the value out");
  }
  static void check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) refuse_anchor(mark);
    if (!tag.empty() && tag != "?" && tag != "!") refuse(mark, "tags are not supported: " + tag);
  }

  [[nodiscard]] bool key_expected() const {
    return !open_.empty() && document_.values[open_.back().index].kind == Document::Kind::kMap && !open_.back().has_key;
  }

  void take_key(const YAML::Mark& mark, const std::string& key) {
    Open& map = open_.back();
    if (key.empty()) refuse(mark, "a key must not be empty");
    if (!map.keys.insert(key).second) refuse(mark, "key \"" + key + "\" occurs twice");
    map.has_key = true;
    map.key = key;
    map.key_line = mark.line + 1;
  }

  Document::Value& add(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Document::Kind kind) {
    check(mark, tag, anchor);
    if (document_.values.size() >= kMaxValues) refuse(mark, fmt::format("more than {} values", kMaxValues));
    Document::Value value;
    value.kind = kind;
    value.line = mark.line + 1;
    if (!open_.empty()) {
      Open& parent = open_.back();
      Document::Value& parent_value = document_.values[parent.index];
      value.parent = parent.index;
      value.position = parent_value.children.size();
      if (parent.has_key) {
        value.key = std::move(parent.key);
        value.line = parent.key_line;
        parent.has_key = false;
      }
      parent_value.children.push_back(document_.values.size());
    }
    return document_.values.emplace_back(std::move(value));
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Document::Kind kind) {
    if (key_expected()) refuse(mark, "a key must be plain text");
    if (open_.size() >= kMaxDepth) refuse(mark, fmt::format("nested deeper than {} levels", kMaxDepth));
    add(mark, tag, anchor, kind);
    open_.push_back({.index = document_.values.size() - 1, .keys = {}, .key = {}});
  }

  Document& document_;
  std::vector<Open> open_;
  int documents_ = 0;
};

Result<YamlNode> YamlNode::parse(std::string_view text, std::string name) {
  if (text.size() > kMaxBytes) {
    return fail(ErrorCode::kTooLarge, fmt::format("{}: {} bytes; at most {} are read", name, text.size(), kMaxBytes));
  }
  KVIST_TRY_VOID(check_characters(text, name));
  auto document = std::make_shared<Document>();
  document->name = std::move(name);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    Builder builder(*document);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& e) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{}:{}: {}{}", document->name, e.mark.line + 1, e.msg,
                                                         is_indented_by_tab(text, e.mark.line) ? kTabHint : ""));
  } catch (const std::exception& e) {
    return fail(ErrorCode::kInternal, fmt::format("{}: the YAML parser failed: {}", document->name, e.what()));
  }
  if (document->values.empty()) {
    document->values.emplace_back();  // a file with only comments has an empty root
    document->values.back().line = 1;
  }
  return YamlNode(std::move(document), 0);
}

Result<YamlNode> YamlNode::load(const std::string& path) {
  KVIST_TRY(const std::string text, read_file(path, kMaxBytes));
  return parse(text, path);
}

}  // namespace kvist

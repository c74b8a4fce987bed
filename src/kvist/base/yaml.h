// YAML as typed reading with positions: every error names file, line and key, and a key nobody asked for is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"

namespace kvist {

/// A node of a YAML document. Cheap to copy (shared ownership of the document); one thread per document. Reads of one
/// mapping remember which keys were asked for; finish() then refuses the others with their line. Units are part of
/// durations and sizes in the text ("20 ms", "1.5 s", "24 GiB"): a bare number where a unit is needed is an error. An
/// empty value ("key:" and nothing behind it) counts as a mapping without keys.
class YamlNode {
 public:
  /// Parses one document. `name` (a path, usually) stands in every error message. Limits: 1 MiB, depth 64, 100,000
  /// values. Refused with their line: duplicate keys, keys that are not plain text, anchors and aliases, tags, a second
  /// document, control characters.
  [[nodiscard]] static Result<YamlNode> parse(std::string_view text, std::string name);
  /// The same from a file; kNotFound where it cannot be opened.
  [[nodiscard]] static Result<YamlNode> load(const std::string& path);

  [[nodiscard]] bool is_map() const;
  [[nodiscard]] bool is_sequence() const;
  [[nodiscard]] bool is_null() const;
  /// "file:line" of this node, for messages of one's own.
  [[nodiscard]] std::string where() const;
  /// kInvalidArgument, "file:line: path.of.the.key: what".
  [[nodiscard]] Error error(std::string_view what) const;

  /// The value under `key` of a mapping; nothing where the key is absent. Marks the key as known.
  [[nodiscard]] std::optional<YamlNode> get(std::string_view key) const;
  /// The same, an error where it is absent.
  [[nodiscard]] Result<YamlNode> require(std::string_view key) const;
  /// Elements of a sequence; an error for anything else.
  [[nodiscard]] Result<std::vector<YamlNode>> elements() const;
  /// Key and value pairs of a mapping in document order; marks all as known.
  [[nodiscard]] Result<std::vector<std::pair<std::string, YamlNode>>> entries() const;

  [[nodiscard]] Result<std::string> as_string() const;
  [[nodiscard]] Result<bool> as_bool() const;
  [[nodiscard]] Result<double> as_double(double low, double high) const;
  [[nodiscard]] Result<std::int64_t> as_int(std::int64_t low, std::int64_t high) const;
  [[nodiscard]] Result<Duration> as_duration() const;    ///< ns, us, ms, s, min, h; to the nearest ns, up to 104 days
  [[nodiscard]] Result<double> as_nanoseconds() const;   ///< the same with fractions of a nanosecond kept
  [[nodiscard]] Result<std::uint64_t> as_bytes() const;  ///< B, kB, MB, GB, KiB, MiB, GiB

  /// Refuses keys of this mapping that no get(), require() or entries() asked for: names the first one, its line, and
  /// the keys that would be right.
  [[nodiscard]] Result<void> finish() const;

 private:
  struct Document;
  class Builder;
  YamlNode(std::shared_ptr<Document> document, std::size_t index) : document_(std::move(document)), index_(index) {}
  [[nodiscard]] Result<std::string_view> scalar(std::string_view expected, bool plain_only) const;

  std::shared_ptr<Document> document_;
  std::size_t index_;
};

}  // namespace kvist

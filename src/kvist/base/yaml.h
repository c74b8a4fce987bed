// Typed reading of YAML with positions. Every error names file, line and key, and an unknown key is an error.
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

/// A node of a YAML document. Cheap to copy, because nodes share the document. A mapping remembers which keys were
/// asked for, and finish() refuses the others with their line. Durations and sizes have units ("20 ms", "1.5 s", "24
/// GiB"); a number without a unit is an error there. An empty value ("key:" and nothing after it) counts as a mapping
/// without keys. Threads: one per document.
class YamlNode {
 public:
  /// Parses one document. `name` (usually a path) is in every error message. Limits: 1 MiB, depth 64, 100,000 values.
  /// Refused with their line: duplicate keys, keys that are not plain text, anchors and aliases, tags, a second
  /// document, control characters.
  [[nodiscard]] static Result<YamlNode> parse(std::string_view text, std::string name);
  /// Parses a file. Errors include kNotFound if it cannot be opened.
  [[nodiscard]] static Result<YamlNode> load(const std::string& path);

  [[nodiscard]] bool is_map() const;
  [[nodiscard]] bool is_sequence() const;
  [[nodiscard]] bool is_null() const;
  /// "file:line" of this node, for the caller's messages.
  [[nodiscard]] std::string where() const;
  /// The error kInvalidArgument, "file:line: path.of.the.key: what".
  [[nodiscard]] Error error(std::string_view what) const;

  /// The value under `key` of a mapping; nothing if the key is absent. Marks the key as known.
  [[nodiscard]] std::optional<YamlNode> get(std::string_view key) const;
  /// The value under `key`; an error if the key is absent.
  [[nodiscard]] Result<YamlNode> require(std::string_view key) const;
  /// The elements of a sequence; an error for anything else.
  [[nodiscard]] Result<std::vector<YamlNode>> elements() const;
  /// The key and value pairs of a mapping in document order. Marks all keys as known.
  [[nodiscard]] Result<std::vector<std::pair<std::string, YamlNode>>> entries() const;

  [[nodiscard]] Result<std::string> as_string() const;
  [[nodiscard]] Result<bool> as_bool() const;
  [[nodiscard]] Result<double> as_double(double low, double high) const;
  [[nodiscard]] Result<std::int64_t> as_int(std::int64_t low, std::int64_t high) const;
  [[nodiscard]] Result<Duration> as_duration() const;    ///< ns, us, ms, s, min, h; to the nearest ns, up to 104 days
  [[nodiscard]] Result<double> as_nanoseconds() const;   ///< the same with fractions of a nanosecond kept
  [[nodiscard]] Result<std::uint64_t> as_bytes() const;  ///< B, kB, MB, GB, KiB, MiB, GiB

  /// Refuses keys of this mapping that no get(), require() or entries() asked for. The error names the first one, its
  /// line, and the known keys.
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

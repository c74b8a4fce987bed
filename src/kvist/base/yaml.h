// YAML as typed reading with positions: every error names file, line and key, and a key nobody asked for is an error.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"

namespace kvist {

/// A node of a YAML document. Cheap to copy (shared ownership of the document). Reads of one mapping remember which
/// keys were asked for; finish() then refuses the others with their line. Units are part of durations and sizes in the
/// text ("20 ms", "1.5 s", "24 GiB"): a bare number where a unit is needed is an error.
class YamlNode {
 public:
  /// Parses one document. `name` (a path, usually) stands in every error message. Limits: 1 MiB, depth 64.
  [[nodiscard]] static Result<YamlNode> parse(std::string_view text, std::string name);
  [[nodiscard]] static Result<YamlNode> load(const std::string& path);

  [[nodiscard]] bool is_map() const;
  [[nodiscard]] bool is_sequence() const;
  [[nodiscard]] bool is_null() const;
  /// "file:line" of this node, for messages of one's own.
  [[nodiscard]] std::string where() const;
  [[nodiscard]] Error error(std::string_view what) const;  ///< kInvalidArgument, "file:line: what"

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
  [[nodiscard]] Result<Duration> as_duration() const;    ///< ns, us, ms, s, min, h
  [[nodiscard]] Result<std::uint64_t> as_bytes() const;  ///< B, kB, MB, GB, KiB, MiB, GiB

  /// Refuses keys of this mapping that no get(), require() or entries() asked for: names the first one, its line, and
  /// the keys that would be right.
  [[nodiscard]] Result<void> finish() const;

 private:
  struct Document;
  struct Impl;
  explicit YamlNode(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace kvist

// What a page asks for, as typed values (docs/formats/dashboard.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "kvist/base/error.h"
#include "kvist/spec/routing_mode.h"

namespace kvist::dashboard {

inline constexpr std::uint32_t kMostConcurrency = 4'096;
inline constexpr double kMostRate = 1'000;

// Changes.
struct StartLoad {
  std::optional<std::uint32_t> concurrency = {};  ///< nothing: what the controls had last
  std::optional<double> rate_per_s = {};
};
struct StopLoad {
  bool drain = true;
};
struct SetConcurrency {
  std::uint32_t concurrency = 0;
};
struct SetRate {
  double rate_per_s = 0;
};
struct SetMode {
  spec::RoutingMode mode = spec::RoutingMode::kRoundRobin;
};

// Questions.
struct AskHistory {
  bool of_workers = false;
  std::int64_t window_s = 0;
  std::size_t points = 900;
};
enum class Topic : std::uint8_t { kConversations, kDecisions };
struct Subscribe {
  Topic topic = Topic::kConversations;
  bool on = true;
};
struct AskConversation {
  std::string conversation;
};
struct AskRuns {};
struct AskRun {
  std::string run;
};
struct AskLevel {
  std::string run;
  std::int64_t level = 0;
};
struct AskCompare {
  std::string baseline;
  std::string candidate;
};

struct Command {
  std::uint64_t id = 0;
  std::string token = {};
  std::variant<StartLoad, StopLoad, SetConcurrency, SetRate, SetMode, AskHistory, Subscribe, AskConversation, AskRuns,
               AskRun, AskLevel, AskCompare>
      what = AskRuns{};

  /// Whether it changes something.
  [[nodiscard]] bool changes() const { return what.index() <= 4; }
};

/// Why a text is no command, and which one it was, as far as that could be read.
struct BadCommand {
  std::uint64_t id = 0;
  std::string why;
};

[[nodiscard]] std::expected<Command, BadCommand> read_command(std::string_view text);

/// {"type":"reply",...}. `result` is JSON.
[[nodiscard]] std::string reply_json(std::uint64_t id, std::string_view result);
[[nodiscard]] std::string refusal_json(std::uint64_t id, std::string_view why);

}  // namespace kvist::dashboard

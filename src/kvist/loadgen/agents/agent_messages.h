// What coordinator and agents say to each other, as JSON. An agent listens; GET /agent, GET /clock, GET and PUT /files,
// POST /load, POST /load/start, PATCH /load, POST /load/stop, GET /load/samples, GET /load/feed, POST /load/release.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/loadgen/load.h"
#include "kvist/workload/shard.h"
#include "kvist/workload/turn_source.h"

namespace kvist::loadgen {

/// Increased when a message or a page of samples changes.
inline constexpr std::uint32_t kAgentProtocol = 3;
/// Loops of one agent, and of all together.
inline constexpr std::uint32_t kMostAgentThreads = 256;
inline constexpr std::uint32_t kMostShards = 65'536;

enum class AgentState : std::uint8_t {
  kIdle,       ///< has no load
  kPreparing,  ///< makes the texts of a load
  kReady,      ///< waits for its start
  kRunning,    ///< also until the instant at which its schedule begins
  kDraining,   ///< sends nothing new
  kEnded,      ///< nothing is in flight; has samples that may not have been fetched
  kFailed,     ///< the load could not be made: `error`
};
[[nodiscard]] std::string_view to_string(AgentState state);

/// The answer of GET /agent and of every command.
struct AgentReport {
  std::string kvist_version;
  std::uint32_t protocol = 0;
  std::uint32_t threads = 0;
  AgentState state = AgentState::kIdle;
  std::string load = {};      ///< the coordinator's name of the load; empty when idle
  std::string schedule = {};  ///< digest of the load (schedule_digest), once it is ready
  std::string error = {};     ///< kFailed: why
  Progress progress = {};     ///< of the last ten seconds
  bool exhausted = false;     ///< has sent its last turn by itself
  std::uint64_t samples_refused = 0;
  workload::HeldBack held_back = {};
  ClientLoad client = {};    ///< up to when nothing new was sent
  Duration driven{};         ///< for how long, from the beginning of the schedule up to then
  Duration latest_change{};  ///< by how much a change came too late for its instant, at most
};
[[nodiscard]] std::string agent_report_json(const AgentReport& report);
/// Unknown members are ignored, so that versions can tell each other that they differ.
[[nodiscard]] Result<AgentReport> parse_agent_report(std::string_view json);

/// POST /load: make ready what `order` says (a document of the command's, opaque here), as `threads` parts of `shard`.
struct LoadCommand {
  std::string load;
  workload::Shard shard;  ///< the first of the agent's parts
  std::string order;      ///< JSON
  bool watched = false;   ///< what happens is asked for (FeedPage)
};
[[nodiscard]] std::string load_command_json(const LoadCommand& command);
[[nodiscard]] Result<LoadCommand> parse_load_command(std::string_view json);

/// POST /load/start: the schedule begins at `at` and, if there is a `stop`, nothing new is sent from that instant on.
/// Instants are of the agent's clock.
struct AgentStart {
  std::string load;
  TimePoint at;
  std::optional<TimePoint> stop;
};
[[nodiscard]] std::string agent_start_json(const AgentStart& command);
[[nodiscard]] Result<AgentStart> parse_agent_start(std::string_view json);

/// PATCH /load.
struct AgentChange {
  std::string load;
  TimePoint at;
  workload::LoadChange change;
};
[[nodiscard]] std::string agent_change_json(const AgentChange& command);
[[nodiscard]] Result<AgentChange> parse_agent_change(std::string_view json);

/// POST /load/stop, and POST /load/release, which cancels what is left and forgets the load.
struct AgentStop {
  std::string load;
  bool drain = true;
};
[[nodiscard]] std::string agent_stop_json(const AgentStop& command);
[[nodiscard]] Result<AgentStop> parse_agent_stop(std::string_view json);

/// GET /clock.
[[nodiscard]] std::string clock_json(TimePoint now);
[[nodiscard]] Result<TimePoint> parse_clock(std::string_view json);

/// GET /files?sha256=..: how many bytes of a file the agent has. The file is there when its digest was right.
struct FileState {
  std::uint64_t bytes = 0;
  bool complete = false;
};
[[nodiscard]] std::string file_state_json(const FileState& state);
[[nodiscard]] Result<FileState> parse_file_state(std::string_view json);

}  // namespace kvist::loadgen

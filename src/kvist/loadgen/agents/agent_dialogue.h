// What a coordinator asks one agent next: the whole way of a load, without the network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/loadgen/agents/agent_messages.h"
#include "kvist/loadgen/agents/clock_offset.h"
#include "kvist/workload/load_feed.h"
#include "kvist/workload/recorder.h"
#include "kvist/workload/shard.h"
#include "kvist/workload/turn_sample.h"

namespace kvist::loadgen {

/// A file that the load needs, as it is on the coordinator's machine.
struct OrderedFile {
  std::string path;
  std::string sha256;  ///< in hexadecimal digits
  std::uint64_t bytes = 0;
};

/// What is ordered of all agents.
struct CoordinatedLoad {
  std::string name;   ///< not of any other load
  std::string order;  ///< JSON, for ReadAgentOrder
  std::vector<OrderedFile> files = {};
  std::string schedule;  ///< schedule_digest() here
  bool watched = false;  ///< somebody looks at what happens: AgentDialogue::take_batch()
};

/// A part of a file, which is to be the body of a call.
struct FilePart {
  std::size_t file = 0;  ///< of CoordinatedLoad::files
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

enum class AgentAsk : std::uint8_t {
  kLook,
  kFileState,
  kFilePart,
  kLoad,
  kClock,
  kStart,
  kChange,
  kStop,
  kSamples,
  kFeed,
  kRelease
};

/// A call that is to be made now.
struct AgentCall {
  AgentAsk ask = AgentAsk::kLook;
  std::string method;
  std::string target;  ///< path with query
  std::string body = {};
  std::optional<FilePart> part = {};
  Duration timeout{};
};

/// Its answer, with the instants between which the agent answered.
struct AgentAnswer {
  int status = 0;
  std::string body;
  TimePoint sent;
  TimePoint received;
};

/// Where an agent is on its way. Before kRunning a failure is one of the whole load (kFailed); after it the agent alone
/// is lost, with what it has not sent yet.
enum class AgentPhase : std::uint8_t {
  kGreeting,        ///< is asked who it is
  kGreeted,         ///< waits for its part: order()
  kSending,         ///< gets the files that it does not have
  kPreparing,       ///< makes the load's texts
  kComparing,       ///< its clock is read
  kReady,           ///< waits for start()
  kRunning,         ///< drives; sends its samples meanwhile
  kCollecting,      ///< has ended; sends the rest
  kComparingAgain,  ///< its clock is read again
  kReleasing,       ///< is told to forget the load
  kDone,
  kFailed,
  kLost,
};

/// One call at a time: next() says which, on_answer() takes its answer. Threads: one. Memory: the samples that have
/// come, bounded by `limits`; those beyond are counted.
class AgentDialogue {
 public:
  /// `name` is the agent's for people.
  AgentDialogue(std::string name, std::shared_ptr<const CoordinatedLoad> load, workload::RecorderLimits limits);

  /// The call to make now; nothing: one is under way, or none is due.
  [[nodiscard]] std::optional<AgentCall> next(TimePoint now);
  /// When next() has one; nothing: after an answer or a command.
  [[nodiscard]] std::optional<TimePoint> next_due() const;
  /// The answer to the call under way, or why there is none.
  void on_answer(const Result<AgentAnswer>& answer, TimePoint now);

  /// Gives the agent its parts of the load. Requires: kGreeted.
  void order(const workload::Shard& first_part);
  /// The schedule begins at `at` and ends at `stop`, by this clock. Requires: kReady.
  void start(TimePoint at, std::optional<TimePoint> stop, TimePoint now);
  /// Changes the load at an instant. Does nothing unless kRunning.
  void change(const workload::LoadChange& change, TimePoint at);
  /// Sends nothing new; without `drain` breaks off what is in flight. Does nothing unless kRunning.
  void stop(bool drain);
  /// The load will not be: an agent that was given a part is told so. Requires: before kRunning.
  void abandon();

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] AgentPhase phase() const { return phase_; }
  [[nodiscard]] bool is_over() const {
    return phase_ == AgentPhase::kDone || phase_ == AgentPhase::kFailed || phase_ == AgentPhase::kLost;
  }
  /// Of kFailed and kLost: why.
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }
  /// When it was lost.
  [[nodiscard]] TimePoint lost_at() const { return lost_at_; }
  /// What else a reader of its results must know.
  [[nodiscard]] const std::vector<std::string>& remarks() const { return remarks_; }
  /// As it said last.
  [[nodiscard]] const AgentReport& report() const { return report_; }
  [[nodiscard]] const workload::Shard& shard() const { return shard_; }
  [[nodiscard]] bool has_part_of(std::uint64_t conversation) const;
  /// Nothing before kReady.
  [[nodiscard]] const std::optional<ClockComparison>& clock() const { return clock_; }
  [[nodiscard]] std::uint64_t samples_received() const { return received_; }
  /// Those that found no room at the agent or here.
  [[nodiscard]] std::uint64_t samples_refused() const { return report_.samples_refused + refused_here_; }
  /// The samples that have come, in this clock's time: each is moved as a whole, so that its latencies are those that
  /// the agent measured. None is kept.
  [[nodiscard]] std::vector<workload::TurnSample> take_samples();

  /// Until when, by this clock, what happened has come; nothing: none of it has.
  [[nodiscard]] const std::optional<TimePoint>& feed_until() const { return feed_until_; }
  /// What happened until then, by this clock, and was not taken yet. Bounded by kMostFeedBytes; what found no room is
  /// counted in the batch.
  [[nodiscard]] workload::LoadBatch take_batch(TimePoint until);
  /// Of a load that is watched, as of the last page of its feed.
  [[nodiscard]] const workload::RecorderTotals& totals() const { return totals_; }

  static constexpr std::size_t kMostFeedBytes = std::size_t{32} << 20;
  static constexpr std::size_t kClockReadings = 16;
  /// Without an answer for so long an agent is lost.
  static constexpr Duration kLostAfter = std::chrono::seconds(5);

 private:
  [[nodiscard]] std::optional<AgentCall> call_of_phase();
  [[nodiscard]] AgentCall call(AgentAsk ask, std::string method, std::string target, std::string body = {}) const;
  [[nodiscard]] AgentCall running_call();
  [[nodiscard]] AgentCall feed_call() const;
  [[nodiscard]] AgentCall file_call();

  void on_good_answer(const AgentAnswer& answer, TimePoint now);
  void on_refusal(const Error& error, TimePoint now);
  void on_silence(const Error& error, TimePoint now);
  [[nodiscard]] Result<void> take_report(const AgentAnswer& answer, TimePoint now);
  [[nodiscard]] Result<void> take_file_state(const AgentAnswer& answer);
  [[nodiscard]] Result<void> take_clock(const AgentAnswer& answer);
  [[nodiscard]] Result<void> take_feed(const AgentAnswer& answer, TimePoint now);
  /// After the samples that it had, and the feed if there is one.
  void after_collecting(TimePoint now);
  [[nodiscard]] Result<void> take_page(const AgentAnswer& answer, TimePoint now);
  [[nodiscard]] Result<void> check_stranger() const;
  [[nodiscard]] Result<void> check_schedule() const;
  void give_up(const Error& error, TimePoint now);
  void after_files();

  std::string name_;
  std::shared_ptr<const CoordinatedLoad> load_;
  workload::RecorderLimits limits_;
  AgentPhase phase_ = AgentPhase::kGreeting;
  std::optional<AgentAsk> asked_;  // the call under way
  std::optional<TimePoint> due_;   // of the next call, if it is to come later
  TimePoint heard_{};              // the last answer since the start
  bool silent_ = false;            // the last call had no answer
  std::optional<Error> error_;
  TimePoint lost_at_{};
  std::vector<std::string> remarks_;
  AgentReport report_;
  workload::Shard shard_;

  std::size_t file_ = 0;                    // that is being sent
  std::optional<std::uint64_t> has_bytes_;  // of it; nothing: not asked yet
  bool ordered_ = false;                    // POST /load was answered
  std::vector<ClockReading> readings_;
  std::optional<ClockComparison> clock_;

  struct Start {
    TimePoint at;
    std::optional<TimePoint> stop;
  };
  std::optional<Start> start_;       // not yet told
  std::deque<AgentChange> changes_;  // not yet told, in the agent's time
  std::optional<bool> stop_;         // not yet told: whether to drain
  bool fetch_ = false;               // samples are to be asked for now
  bool look_ = false;                // so is the feed
  workload::LoadBatch feed_;         // in this clock's time
  std::size_t feed_bytes_ = 0;       // of the pages in it, as they came
  std::uint64_t feed_pages_ = 0;
  std::optional<TimePoint> feed_until_;
  workload::RecorderTotals totals_;
  std::vector<workload::TurnSample> samples_;  // in the agent's time
  std::size_t sample_bytes_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t refused_here_ = 0;
};

}  // namespace kvist::loadgen

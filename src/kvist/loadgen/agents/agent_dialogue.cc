#include "kvist/loadgen/agents/agent_dialogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/base/json.h"
#include "kvist/base/version.h"
#include "kvist/loadgen/agents/feed_page.h"
#include "kvist/loadgen/agents/file_store.h"
#include "kvist/loadgen/agents/sample_page.h"
#include "kvist/loadgen/load_merge.h"

namespace kvist::loadgen {
namespace {

using workload::TurnSample;

constexpr Duration kCallTimeout = std::chrono::seconds(4);
constexpr Duration kFileTimeout = std::chrono::seconds(60);
/// How often an agent is asked whether it is ready, and how it goes.
constexpr Duration kReadyPeriod = std::chrono::milliseconds(50);
constexpr Duration kRunPeriod = std::chrono::milliseconds(500);
constexpr Duration kRetryPeriod = std::chrono::milliseconds(250);
/// While others are not ready: often enough for the agent's lease.
constexpr Duration kKeepPeriod = std::chrono::seconds(3);

/// The message of an error that an agent answered with.
Error refusal_of(const AgentAnswer& answer) {
  JsonDocument document;
  std::string message = fmt::format("answered with status {}", answer.status);
  if (const auto object = document.parse_object(answer.body)) {
    const auto error = object->peek("error");
    const auto inside = error ? error->if_object() : std::nullopt;
    const auto text = inside ? inside->peek("message") : std::nullopt;
    if (text && text->if_string()) message = std::string(text->if_string()->substr(0, 1'024));
  }
  return {answer.status == 401 ? ErrorCode::kUnauthenticated : ErrorCode::kUnavailable, std::move(message)};
}

std::size_t bytes_of(const TurnSample& sample) {
  return sizeof sample + sample.error.size() + sample.worker.size() +
         sizeof(float) * (sample.gaps_ms.size() + sample.late_ms.size() + sample.unsure_ms.size());
}

void move_by(TurnSample& sample, Duration by) {
  for (const auto instant : {&TurnSample::intended, &TurnSample::ready, &TurnSample::handed, &TurnSample::sent,
                             &TurnSample::first_token, &TurnSample::last_token, &TurnSample::ended}) {
    if (sample.*instant != TimePoint{}) sample.*instant += by;
  }
}

void move_by_clock(TurnSample& sample, const ClockComparison& clock) {
  const TimePoint anchor = sample.sent != TimePoint{} ? sample.sent : sample.intended;
  move_by(sample, clock.to_local(anchor) - anchor);
}

void move_by_clock(workload::LoadBatch& batch, const ClockComparison& clock) {
  for (auto& first : batch.first_tokens) first.at = clock.to_local(first.at);
  for (auto& chunks : batch.chunks) chunks.at = clock.to_local(chunks.at);
  for (TimePoint& start : batch.conversation_starts) start = clock.to_local(start);
  for (auto& started : batch.started) started.at = clock.to_local(started.at);
  for (auto& ended : batch.ended) move_by_clock(ended.sample, clock);
}

}  // namespace

AgentDialogue::AgentDialogue(std::string name, std::shared_ptr<const CoordinatedLoad> load,
                             workload::RecorderLimits limits)
    : name_(std::move(name)), load_(std::move(load)), limits_(limits) {}

AgentCall AgentDialogue::call(AgentAsk ask, std::string method, std::string target, std::string body) const {
  return {.ask = ask,
          .method = std::move(method),
          .target = std::move(target),
          .body = std::move(body),
          .timeout = ask == AgentAsk::kFilePart ? kFileTimeout : kCallTimeout};
}

std::optional<AgentCall> AgentDialogue::next(TimePoint now) {
  if (asked_ || is_over()) return std::nullopt;
  const bool urgent = !silent_ && phase_ == AgentPhase::kRunning && (start_ || stop_ || !changes_.empty());
  if (due_ && *due_ > now && !urgent) return std::nullopt;
  std::optional<AgentCall> next = call_of_phase();
  if (!next) return std::nullopt;
  due_.reset();
  asked_ = next->ask;
  return next;
}

std::optional<TimePoint> AgentDialogue::next_due() const {
  return asked_ || is_over() ? std::nullopt : due_;
}

std::optional<AgentCall> AgentDialogue::call_of_phase() {
  switch (phase_) {
    case AgentPhase::kGreeting:
      return call(AgentAsk::kLook, "GET", "/agent");
    case AgentPhase::kSending:
      return file_call();
    case AgentPhase::kPreparing:
      if (!ordered_) {
        return call(AgentAsk::kLoad, "POST", "/load",
                    load_command_json(
                        {.load = load_->name, .shard = shard_, .order = load_->order, .watched = load_->watched}));
      }
      return call(AgentAsk::kLook, "GET", "/agent?load=" + load_->name);
    case AgentPhase::kComparing:
    case AgentPhase::kComparingAgain:
      return call(AgentAsk::kClock, "GET", "/clock");
    case AgentPhase::kReady:
      return call(AgentAsk::kLook, "GET", "/agent?load=" + load_->name);
    case AgentPhase::kRunning:
      return running_call();
    case AgentPhase::kCollecting:
      if (look_) return feed_call();
      return call(AgentAsk::kSamples, "GET", fmt::format("/load/samples?load={}&after={}", load_->name, received_));
    case AgentPhase::kReleasing:
      return call(AgentAsk::kRelease, "POST", "/load/release", agent_stop_json({.load = load_->name, .drain = false}));
    case AgentPhase::kGreeted:
    case AgentPhase::kDone:
    case AgentPhase::kFailed:
    case AgentPhase::kLost:
      return std::nullopt;
  }
  return std::nullopt;
}

AgentCall AgentDialogue::running_call() {
  if (start_) {
    const AgentStart told{.load = load_->name,
                          .at = clock_->to_remote(start_->at),
                          .stop = start_->stop ? std::optional(clock_->to_remote(*start_->stop)) : std::nullopt};
    return call(AgentAsk::kStart, "POST", "/load/start", agent_start_json(told));
  }
  if (!changes_.empty()) return call(AgentAsk::kChange, "PATCH", "/load", agent_change_json(changes_.front()));
  if (stop_) {
    return call(AgentAsk::kStop, "POST", "/load/stop", agent_stop_json({.load = load_->name, .drain = *stop_}));
  }
  if (fetch_) {
    return call(AgentAsk::kSamples, "GET", fmt::format("/load/samples?load={}&after={}", load_->name, received_));
  }
  if (look_) return feed_call();
  return call(AgentAsk::kLook, "GET", "/agent?load=" + load_->name);
}

AgentCall AgentDialogue::feed_call() const {
  return call(AgentAsk::kFeed, "GET", fmt::format("/load/feed?load={}&after={}", load_->name, feed_pages_));
}

AgentCall AgentDialogue::file_call() {
  const OrderedFile& file = load_->files[file_];
  if (!has_bytes_) return call(AgentAsk::kFileState, "GET", "/files?sha256=" + file.sha256);
  AgentCall part = call(AgentAsk::kFilePart, "PUT",
                        fmt::format("/files?sha256={}&offset={}&bytes={}", file.sha256, *has_bytes_, file.bytes));
  part.part = FilePart{.file = file_,
                       .offset = *has_bytes_,
                       .bytes = std::min(FileStore::kPartBytes, file.bytes - std::min(file.bytes, *has_bytes_))};
  return part;
}

void AgentDialogue::order(const workload::Shard& first_part) {
  KVIST_CHECK(phase_ == AgentPhase::kGreeted, "a part is given once, to an agent that has said who it is");
  shard_ = first_part;
  phase_ = AgentPhase::kSending;
  after_files();
}

void AgentDialogue::after_files() {
  if (file_ == load_->files.size()) phase_ = AgentPhase::kPreparing;
}

void AgentDialogue::start(TimePoint at, std::optional<TimePoint> stop, TimePoint now) {
  KVIST_CHECK(phase_ == AgentPhase::kReady, "only what is ready can be started");
  phase_ = AgentPhase::kRunning;
  start_ = Start{.at = at, .stop = stop};
  heard_ = now;
}

void AgentDialogue::change(const workload::LoadChange& change, TimePoint at) {
  if (phase_ != AgentPhase::kRunning) return;
  changes_.push_back({.load = load_->name, .at = clock_->to_remote(at), .change = change});
}

void AgentDialogue::stop(bool drain) {
  if (phase_ == AgentPhase::kRunning) stop_ = drain;
}

void AgentDialogue::abandon() {
  if (is_over()) return;
  const bool knows =
      phase_ == AgentPhase::kPreparing || phase_ == AgentPhase::kComparing || phase_ == AgentPhase::kReady;
  phase_ = knows ? AgentPhase::kReleasing : AgentPhase::kDone;
  due_.reset();
}

bool AgentDialogue::has_part_of(std::uint64_t conversation) const {
  const std::uint64_t part = conversation % shard_.count;
  return part >= shard_.index && part < shard_.index + report_.threads;
}

void AgentDialogue::on_answer(const Result<AgentAnswer>& answer, TimePoint now) {
  if (!asked_) return;  // it was given up meanwhile
  if (is_over()) return asked_.reset();
  if (!answer) return on_silence(answer.error(), now);
  heard_ = now;
  silent_ = false;
  if (answer->status != 200) return on_refusal(refusal_of(*answer), now);
  on_good_answer(*answer, now);
}

void AgentDialogue::on_good_answer(const AgentAnswer& answer, TimePoint now) {
  const AgentAsk ask = *std::exchange(asked_, std::nullopt);
  const auto taken = [&]() -> Result<void> {
    switch (ask) {
      case AgentAsk::kFileState:
      case AgentAsk::kFilePart:
        return take_file_state(answer);
      case AgentAsk::kClock:
        return take_clock(answer);
      case AgentAsk::kSamples:
        return take_page(answer, now);
      case AgentAsk::kFeed:
        return take_feed(answer, now);
      case AgentAsk::kRelease:
        phase_ = AgentPhase::kDone;
        return {};
      case AgentAsk::kStart:
        start_.reset();
        break;
      case AgentAsk::kChange:
        changes_.pop_front();
        break;
      case AgentAsk::kStop:
        stop_.reset();
        break;
      case AgentAsk::kLoad:
        ordered_ = true;
        break;
      case AgentAsk::kLook:
        break;
    }
    return take_report(answer, now);
  }();
  if (!taken) give_up(taken.error(), now);
}

void AgentDialogue::on_refusal(const Error& error, TimePoint now) {
  const AgentAsk ask = *std::exchange(asked_, std::nullopt);
  if (ask == AgentAsk::kChange) {
    remarks_.push_back("has not changed its part of the load: " + error.message);
    changes_.pop_front();
    return;
  }
  give_up(error, now);
}

void AgentDialogue::on_silence(const Error& error, TimePoint now) {
  asked_.reset();
  const bool has_begun = phase_ == AgentPhase::kRunning || phase_ == AgentPhase::kCollecting;
  if (has_begun && now - heard_ < kLostAfter) {
    silent_ = true;
    due_ = now + kRetryPeriod;
    return;
  }
  give_up(error, now);
}

void AgentDialogue::give_up(const Error& error, TimePoint now) {
  if (phase_ == AgentPhase::kReleasing) {
    phase_ = AgentPhase::kDone;
    return;
  }
  if (phase_ == AgentPhase::kComparingAgain) {  // all its samples are here
    phase_ = AgentPhase::kReleasing;
    return;
  }
  const bool has_begun = phase_ == AgentPhase::kRunning || phase_ == AgentPhase::kCollecting;
  phase_ = has_begun ? AgentPhase::kLost : AgentPhase::kFailed;
  error_ = error;
  lost_at_ = now;
}

Result<void> AgentDialogue::check_stranger() const {
  if (report_.protocol == kAgentProtocol && report_.kvist_version == kVersion) return {};
  return fail(ErrorCode::kUnsupported,
              fmt::format("runs kvist {} (protocol {}); this is {} (protocol {}): use one version on all machines",
                          report_.kvist_version, report_.protocol, kVersion, kAgentProtocol));
}

Result<void> AgentDialogue::check_schedule() const {
  if (report_.schedule == load_->schedule) return {};
  return fail(ErrorCode::kUnsupported,
              fmt::format("would drive another load: the digest of its schedule is {}, here it is {}; want the same "
                          "build on the same kind of machine",
                          report_.schedule.substr(0, 12), load_->schedule.substr(0, 12)));
}

Result<void> AgentDialogue::take_report(const AgentAnswer& answer, TimePoint now) {
  const std::uint32_t threads = report_.threads;
  KVIST_TRY(report_, parse_agent_report(answer.body));
  KVIST_TRY_VOID(check_stranger());
  const AgentState state = report_.state;
  if (phase_ == AgentPhase::kGreeting) {
    phase_ = AgentPhase::kGreeted;
    if (state == AgentState::kIdle || state == AgentState::kFailed) return {};
    return fail(ErrorCode::kResourceExhausted, "drives a load of another coordinator");
  }
  if (phase_ == AgentPhase::kReleasing) return {};
  if (report_.load != load_->name) {
    return fail(ErrorCode::kUnavailable,
                "does not have the load any more: it was started anew, or was not asked for too long");
  }
  if (report_.threads != threads) return fail(ErrorCode::kCorrupt, "has another number of threads than before");
  if (state == AgentState::kFailed) return fail(ErrorCode::kInvalidArgument, report_.error);
  if (phase_ == AgentPhase::kPreparing) {
    if (state != AgentState::kReady) {
      due_ = now + kReadyPeriod;
      return {};
    }
    KVIST_TRY_VOID(check_schedule());
    phase_ = AgentPhase::kComparing;
    return {};
  }
  if (phase_ == AgentPhase::kReady) {
    due_ = now + kKeepPeriod;
    return {};
  }
  if (phase_ != AgentPhase::kRunning) return {};
  if (state == AgentState::kEnded) {
    phase_ = AgentPhase::kCollecting;
    return {};
  }
  fetch_ = true;
  return {};
}

Result<void> AgentDialogue::take_file_state(const AgentAnswer& answer) {
  KVIST_TRY(const FileState state, parse_file_state(answer.body));
  if (!state.complete) {
    if (state.bytes > load_->files[file_].bytes) return fail(ErrorCode::kCorrupt, "has more of a file than there is");
    if (has_bytes_ && state.bytes <= *has_bytes_) return fail(ErrorCode::kCorrupt, "does not keep a file that is sent");
    has_bytes_ = state.bytes;
    return {};
  }
  has_bytes_.reset();
  ++file_;
  after_files();
  return {};
}

Result<void> AgentDialogue::take_clock(const AgentAnswer& answer) {
  KVIST_TRY(const TimePoint remote, parse_clock(answer.body));
  readings_.push_back({.sent = answer.sent, .received = answer.received, .remote = remote});
  if (readings_.size() < kClockReadings) return {};
  const std::optional<ClockOffset> offset = offset_of(readings_);
  readings_.clear();
  if (!offset) return fail(ErrorCode::kInternal, "its clock could not be compared");
  if (phase_ == AgentPhase::kComparing) {
    clock_.emplace(*offset);
    phase_ = AgentPhase::kReady;
    return {};
  }
  clock_->set_after(*offset);
  phase_ = AgentPhase::kReleasing;
  return {};
}

Result<void> AgentDialogue::take_page(const AgentAnswer& answer, TimePoint now) {
  KVIST_TRY(SamplePage page, read_sample_page(answer.body));
  if (page.first != received_) return fail(ErrorCode::kCorrupt, "sent other samples than it was asked for");
  for (TurnSample& sample : page.samples) {
    if (!has_part_of(sample.conversation.value())) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("sent a sample of conversation {}, which is not its own", sample.conversation.value()));
    }
    ++received_;
    const std::size_t bytes = bytes_of(sample);
    if (refused_here_ > 0 || samples_.size() >= limits_.samples || sample_bytes_ + bytes > limits_.bytes) {
      ++refused_here_;
      continue;
    }
    sample_bytes_ += bytes;
    samples_.push_back(std::move(sample));
  }
  if (page.more && !page.samples.empty()) return {};  // the next page at once
  fetch_ = false;
  look_ = load_->watched;
  if (!look_) after_collecting(now);
  return {};
}

void AgentDialogue::after_collecting(TimePoint now) {
  if (phase_ == AgentPhase::kCollecting) {
    phase_ = AgentPhase::kComparingAgain;
  } else {
    due_ = now + kRunPeriod;
  }
}

Result<void> AgentDialogue::take_feed(const AgentAnswer& answer, TimePoint now) {
  KVIST_TRY(FeedPage page, read_feed_page(answer.body));
  if (page.number != feed_pages_ + 1) return fail(ErrorCode::kCorrupt, "sent another page than it was asked for");
  const auto is_own = [this](ConversationId conversation) { return has_part_of(conversation.value()); };
  const bool all_own =
      std::ranges::all_of(page.batch.started, is_own, &workload::LoadBatch::StartedTurn::conversation) &&
      std::ranges::all_of(page.batch.ended, is_own, [](const auto& ended) { return ended.sample.conversation; });
  if (!all_own) return fail(ErrorCode::kCorrupt, "told of a conversation that is not its own");
  feed_pages_ = page.number;
  totals_ = page.totals;
  feed_until_ = clock_->to_local(page.until);
  move_by_clock(page.batch, *clock_);
  if (feed_bytes_ + answer.body.size() > kMostFeedBytes) {  // nobody takes it
    const std::uint64_t lost = feed_.lost + feed_.first_tokens.size() + feed_.chunks.size() + feed_.started.size() +
                               feed_.ended.size() + feed_.conversation_starts.size();
    feed_ = {};
    feed_.lost = lost;
    feed_bytes_ = 0;
  }
  feed_bytes_ += answer.body.size();
  std::vector<workload::LoadBatch> both;
  both.push_back(std::move(feed_));
  both.push_back(std::move(page.batch));
  feed_ = merge_batches(std::move(both));
  look_ = false;
  after_collecting(now);
  return {};
}

workload::LoadBatch AgentDialogue::take_batch(TimePoint until) {
  workload::LoadBatch taken = take_until(feed_, until);
  const bool empty = feed_.first_tokens.empty() && feed_.chunks.empty() && feed_.started.empty() && feed_.ended.empty();
  if (empty) feed_bytes_ = 0;
  return taken;
}

std::vector<TurnSample> AgentDialogue::take_samples() {
  if (!clock_) return {};
  for (TurnSample& sample : samples_) move_by_clock(sample, *clock_);
  sample_bytes_ = 0;
  return std::exchange(samples_, {});
}

}  // namespace kvist::loadgen

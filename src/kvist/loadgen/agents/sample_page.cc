#include "kvist/loadgen/agents/sample_page.h"

#include <fmt/format.h>

#include <utility>

namespace kvist::loadgen {
namespace {

using workload::TurnOutcome;
using workload::TurnSample;

constexpr std::string_view kPageName = "page of samples";
constexpr std::string_view kMark = "kvistsp3";
/// Texts of errors that are longer are cut.
constexpr std::size_t kMostText = 4'096;
constexpr std::uint8_t kHasSession = 1;
constexpr std::uint8_t kHasPrediction = 2;
constexpr std::uint8_t kReportsCached = 4;

/// The members of one kind, in the order in which they are written.
constexpr TimePoint TurnSample::* kInstants[] = {
    &TurnSample::intended,    &TurnSample::ready,      &TurnSample::handed, &TurnSample::sent,
    &TurnSample::first_token, &TurnSample::last_token, &TurnSample::ended};
constexpr std::uint32_t TurnSample::* kCounts[] = {
    &TurnSample::turn,           &TurnSample::prompt_tokens, &TurnSample::cached_tokens, &TurnSample::completion_tokens,
    &TurnSample::counted_tokens, &TurnSample::chunks,        &TurnSample::unstamped};
constexpr std::vector<float> TurnSample::* kLists[] = {&TurnSample::gaps_ms, &TurnSample::late_ms,
                                                       &TurnSample::unsure_ms};

std::string head_of(std::uint64_t first, bool more, std::uint32_t count) {
  PageWriter out;
  out.number(first);
  out.number(static_cast<std::uint8_t>(more ? 1 : 0));
  out.number(count);
  return std::string(kMark) + out.take();
}

}  // namespace

void write_turn_sample(PageWriter& out, const TurnSample& sample) {
  out.number(sample.conversation.value());
  out.number(static_cast<std::uint8_t>(sample.outcome));
  out.number(static_cast<std::uint8_t>((sample.session ? kHasSession : 0) |
                                       (sample.predicted_cached_tokens ? kHasPrediction : 0) |
                                       (sample.reports_cached ? kReportsCached : 0)));
  if (sample.session) out.number(sample.session->value());
  if (sample.predicted_cached_tokens) out.number(*sample.predicted_cached_tokens);
  out.text(sample.error, kMostText);
  out.text(sample.worker, kMostText);
  for (const auto instant : kInstants) out.instant(sample.*instant);
  for (const auto count : kCounts) out.number(sample.*count);
  out.number(sample.longest_send_ms);
  for (const auto list : kLists) out.list(sample.*list);
}

Result<TurnSample> read_turn_sample(PageReader& in) {
  TurnSample sample;
  KVIST_TRY(const std::uint64_t conversation, in.number<std::uint64_t>());
  sample.conversation = ConversationId(conversation);
  KVIST_TRY(const std::uint8_t outcome, in.number<std::uint8_t>());
  if (outcome > static_cast<std::uint8_t>(TurnOutcome::kAbandoned)) return in.broken("has an unknown outcome");
  sample.outcome = static_cast<TurnOutcome>(outcome);
  KVIST_TRY(const std::uint8_t has, in.number<std::uint8_t>());
  if (has > (kHasSession | kHasPrediction | kReportsCached)) return in.broken("has unknown members");
  sample.reports_cached = (has & kReportsCached) != 0;
  if ((has & kHasSession) != 0) {
    KVIST_TRY(const std::uint64_t session, in.number<std::uint64_t>());
    sample.session = ConversationId(session);
  }
  if ((has & kHasPrediction) != 0) {
    KVIST_TRY(sample.predicted_cached_tokens, in.number<std::uint32_t>());
  }
  KVIST_TRY(sample.error, in.text(kMostText));
  KVIST_TRY(sample.worker, in.text(kMostText));
  for (const auto instant : kInstants) {
    KVIST_TRY(sample.*instant, in.instant());
  }
  for (const auto count : kCounts) {
    KVIST_TRY(sample.*count, in.number<std::uint32_t>());
  }
  KVIST_TRY(sample.longest_send_ms, in.number<float>());
  for (const auto list : kLists) {
    KVIST_TRY(sample.*list, in.list());
  }
  return sample;
}

namespace {

std::string sample_bytes(const TurnSample& sample) {
  PageWriter out;
  write_turn_sample(out, sample);
  return out.take();
}

}  // namespace

std::string write_sample_page(const SamplePage& page) {
  std::string bytes = head_of(page.first, page.more, static_cast<std::uint32_t>(page.samples.size()));
  for (const TurnSample& sample : page.samples) bytes += sample_bytes(sample);
  return bytes;
}

Result<SamplePage> read_sample_page(std::string_view bytes) {
  PageReader in(bytes, kPageName);
  if (!in.begins_with(kMark)) return in.broken("has no mark");
  SamplePage page;
  KVIST_TRY(page.first, in.number<std::uint64_t>());
  KVIST_TRY(const std::uint8_t more, in.number<std::uint8_t>());
  if (more > 1) return in.broken("has an unknown flag");
  page.more = more == 1;
  KVIST_TRY(const std::uint32_t count, in.number<std::uint32_t>());
  for (std::uint32_t i = 0; i < count; ++i) {
    KVIST_TRY(page.samples.emplace_back(), read_turn_sample(in));
  }
  if (in.left() > 0) return in.broken("goes on");
  return page;
}

void SampleOutbox::add(std::vector<TurnSample> samples) {
  for (const TurnSample& sample : samples) {
    std::string bytes = sample_bytes(sample);
    if (refused_ > 0 || samples_.size() >= limits_.samples || bytes_ + bytes.size() > limits_.bytes) {
      ++refused_;
      continue;
    }
    bytes_ += bytes.size();
    samples_.push_back(std::move(bytes));
  }
}

Result<std::string> SampleOutbox::page_after(std::uint64_t received) {
  if (received < first_ || received - first_ > samples_.size()) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("after: {}; want {} to {}, the samples that were sent",
                                                         received, first_, first_ + samples_.size()));
  }
  for (; first_ < received; ++first_) {
    bytes_ -= samples_.front().size();
    samples_.pop_front();
  }
  std::size_t bytes = 0;
  std::uint32_t count = 0;
  while (count < samples_.size() && bytes < kPageBytes) bytes += samples_[count++].size();
  std::string page = head_of(first_, count < samples_.size(), count);
  page.reserve(page.size() + bytes);
  for (std::uint32_t i = 0; i < count; ++i) page += samples_[i];
  return page;
}

}  // namespace kvist::loadgen

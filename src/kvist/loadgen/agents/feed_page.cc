#include "kvist/loadgen/agents/feed_page.h"

#include <fmt/format.h>

#include "kvist/loadgen/agents/page_bytes.h"
#include "kvist/loadgen/agents/sample_page.h"

namespace kvist::loadgen {
namespace {

using workload::LoadBatch;
using workload::RecorderTotals;
using workload::ShownMessage;

constexpr std::string_view kFeedMark = "kvistfp1";
constexpr std::string_view kFeedName = "page of a feed";
constexpr std::size_t kMostRole = 32;
constexpr std::uint32_t kMostAdded = 64;

constexpr std::uint64_t RecorderTotals::* kTotals[] = {
    &RecorderTotals::turns_succeeded,       &RecorderTotals::turns_failed,  &RecorderTotals::turns_abandoned,
    &RecorderTotals::conversations_started, &RecorderTotals::output_tokens, &RecorderTotals::missing_usage,
    &RecorderTotals::samples_refused};

void write_message(PageWriter& out, const ShownMessage& message) {
  out.text(message.role, kMostRole);
  out.text(message.text, feed_limits().message_bytes);
  out.number(static_cast<std::uint8_t>(message.cut ? 1 : 0));
}

Result<ShownMessage> read_message(PageReader& in) {
  ShownMessage message;
  KVIST_TRY(message.role, in.text(kMostRole));
  KVIST_TRY(message.text, in.text(feed_limits().message_bytes));
  KVIST_TRY(const std::uint8_t cut, in.number<std::uint8_t>());
  if (cut > 1) return in.broken("has an unknown flag");
  message.cut = cut == 1;
  return message;
}

void write_started(PageWriter& out, const LoadBatch::StartedTurn& started) {
  out.instant(started.at);
  out.number(started.conversation.value());
  out.number(started.turn);
  const auto added = std::min<std::size_t>(started.added.size(), kMostAdded);
  out.number(static_cast<std::uint32_t>(added));
  for (std::size_t i = 0; i < added; ++i) write_message(out, started.added[i]);
}

Result<LoadBatch::StartedTurn> read_started(PageReader& in) {
  LoadBatch::StartedTurn started;
  KVIST_TRY(started.at, in.instant());
  KVIST_TRY(const std::uint64_t conversation, in.number<std::uint64_t>());
  started.conversation = ConversationId(conversation);
  KVIST_TRY(started.turn, in.number<std::uint32_t>());
  KVIST_TRY(const std::uint32_t added, in.length(1));
  if (added > kMostAdded) return in.broken("has too many messages");
  for (std::uint32_t i = 0; i < added; ++i) {
    KVIST_TRY(started.added.emplace_back(), read_message(in));
  }
  return started;
}

void write_events(PageWriter& out, const LoadBatch& batch) {
  out.number(static_cast<std::uint32_t>(batch.first_tokens.size()));
  for (const LoadBatch::FirstToken& first : batch.first_tokens) {
    out.instant(first.at);
    out.number(first.ttft.count());
  }
  out.number(static_cast<std::uint32_t>(batch.chunks.size()));
  for (const LoadBatch::Chunks& chunks : batch.chunks) {
    out.instant(chunks.at);
    out.number(chunks.count);
  }
  out.list(batch.gaps_ms);
  out.number(static_cast<std::uint32_t>(batch.conversation_starts.size()));
  for (const TimePoint at : batch.conversation_starts) out.instant(at);
}

Result<void> read_events(PageReader& in, LoadBatch& batch) {
  constexpr std::size_t kInstantBytes = sizeof(std::int64_t);
  KVIST_TRY(const std::uint32_t firsts, in.length(2 * kInstantBytes));
  for (std::uint32_t i = 0; i < firsts; ++i) {
    LoadBatch::FirstToken& first = batch.first_tokens.emplace_back();
    KVIST_TRY(first.at, in.instant());
    KVIST_TRY(const std::int64_t ttft, in.number<std::int64_t>());
    if (ttft < 0 || ttft > kMostClockNs) return in.broken("has a duration out of bounds");
    first.ttft = Duration(ttft);
  }
  KVIST_TRY(const std::uint32_t chunks, in.length(kInstantBytes + sizeof(std::uint32_t)));
  for (std::uint32_t i = 0; i < chunks; ++i) {
    LoadBatch::Chunks& some = batch.chunks.emplace_back();
    KVIST_TRY(some.at, in.instant());
    KVIST_TRY(some.count, in.number<std::uint32_t>());
  }
  KVIST_TRY(batch.gaps_ms, in.list());
  KVIST_TRY(const std::uint32_t starts, in.length(kInstantBytes));
  for (std::uint32_t i = 0; i < starts; ++i) {
    KVIST_TRY(batch.conversation_starts.emplace_back(), in.instant());
  }
  return {};
}

Result<void> read_turns(PageReader& in, LoadBatch& batch) {
  KVIST_TRY(const std::uint32_t started, in.length(1));
  for (std::uint32_t i = 0; i < started; ++i) {
    KVIST_TRY(batch.started.emplace_back(), read_started(in));
  }
  KVIST_TRY(const std::uint32_t ended, in.length(1));
  for (std::uint32_t i = 0; i < ended; ++i) {
    LoadBatch::EndedTurn& turn = batch.ended.emplace_back();
    KVIST_TRY(turn.sample, read_turn_sample(in));
    KVIST_TRY(turn.answer, read_message(in));
  }
  KVIST_TRY(batch.lost, in.number<std::uint64_t>());
  return {};
}

}  // namespace

workload::LoadFeedLimits feed_limits() {
  return {
      .entries = 50'000, .gaps = 500'000, .text_bytes = std::size_t{2} << 20, .message_bytes = std::size_t{16} << 10};
}

std::string write_feed_page(const FeedPage& page) {
  PageWriter out;
  out.raw(kFeedMark);
  out.number(page.number);
  out.instant(page.until);
  for (const auto total : kTotals) out.number(page.totals.*total);
  write_events(out, page.batch);
  out.number(static_cast<std::uint32_t>(page.batch.started.size()));
  for (const LoadBatch::StartedTurn& started : page.batch.started) write_started(out, started);
  out.number(static_cast<std::uint32_t>(page.batch.ended.size()));
  for (const LoadBatch::EndedTurn& ended : page.batch.ended) {
    write_turn_sample(out, ended.sample);
    write_message(out, ended.answer);
  }
  out.number(page.batch.lost);
  return out.take();
}

Result<FeedPage> read_feed_page(std::string_view bytes) {
  PageReader in(bytes, kFeedName);
  if (!in.begins_with(kFeedMark)) return in.broken("has no mark");
  FeedPage page;
  KVIST_TRY(page.number, in.number<std::uint64_t>());
  KVIST_TRY(page.until, in.instant());
  for (const auto total : kTotals) {
    KVIST_TRY(page.totals.*total, in.number<std::uint64_t>());
  }
  KVIST_TRY_VOID(read_events(in, page.batch));
  KVIST_TRY_VOID(read_turns(in, page.batch));
  if (in.left() > 0) return in.broken("goes on");
  return page;
}

Result<std::string> FeedOutbox::page_after(std::uint64_t received, const Make& make) {
  if (received + 1 == number_) return page_;
  if (received != number_) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("after: {}; the last page had number {}", received, number_));
  }
  FeedPage page = make();
  page.number = ++number_;
  page_ = write_feed_page(page);
  return page_;
}

}  // namespace kvist::loadgen

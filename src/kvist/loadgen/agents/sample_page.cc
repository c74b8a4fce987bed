#include "kvist/loadgen/agents/sample_page.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "kvist/loadgen/agents/clock_offset.h"

namespace kvist::loadgen {
namespace {

using workload::TurnOutcome;
using workload::TurnSample;

static_assert(std::endian::native == std::endian::little, "numbers are written as they are in memory");

constexpr std::string_view kMark = "kvistsp1";
/// Texts of errors that are longer are cut.
constexpr std::size_t kMostText = 4'096;
constexpr std::uint8_t kHasSession = 1;
constexpr std::uint8_t kHasPrediction = 2;

class PageWriter {
 public:
  template <class T>
    requires std::is_arithmetic_v<T>
  void number(T value) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof value);
    std::memcpy(bytes_.data() + at, &value, sizeof value);
  }
  void instant(TimePoint at) { number(at.time_since_epoch().count()); }
  void text(std::string_view text) {
    text = text.substr(0, kMostText);
    number(static_cast<std::uint16_t>(text.size()));
    bytes_ += text;
  }
  void list(const std::vector<float>& values) {
    number(static_cast<std::uint32_t>(values.size()));
    const std::size_t at = bytes_.size();
    bytes_.resize(at + values.size() * sizeof(float));
    if (!values.empty()) std::memcpy(bytes_.data() + at, values.data(), values.size() * sizeof(float));
  }
  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class PageReader {
 public:
  explicit PageReader(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
    requires std::is_arithmetic_v<T>
  [[nodiscard]] Result<T> number() {
    if (left() < sizeof(T)) return broken("ends in a number");
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    if constexpr (std::is_floating_point_v<T>) {
      if (!std::isfinite(value)) return broken("has a number that is not finite");
    }
    return value;
  }
  [[nodiscard]] Result<TimePoint> instant() {
    KVIST_TRY(const std::int64_t ns, number<std::int64_t>());
    if (ns < 0 || ns > kMostClockNs) return broken("has an instant out of bounds");
    return TimePoint(Duration(ns));
  }
  [[nodiscard]] Result<std::string> text() {
    KVIST_TRY(const std::uint16_t size, number<std::uint16_t>());
    if (size > kMostText || size > left()) return broken("has a text that is too long");
    std::string text(bytes_.substr(at_, size));
    at_ += size;
    return text;
  }
  [[nodiscard]] Result<std::vector<float>> list() {
    KVIST_TRY(const std::uint32_t size, number<std::uint32_t>());
    if (size > left() / sizeof(float)) return broken("has a list that is too long");
    std::vector<float> values(size);
    if (size > 0) std::memcpy(values.data(), bytes_.data() + at_, size * sizeof(float));
    at_ += size * sizeof(float);
    for (const float value : values) {
      if (!std::isfinite(value)) return broken("has a number that is not finite");
    }
    return values;
  }
  [[nodiscard]] bool begins_with(std::string_view mark) {
    if (!bytes_.substr(at_).starts_with(mark)) return false;
    at_ += mark.size();
    return true;
  }
  [[nodiscard]] std::size_t left() const { return bytes_.size() - at_; }
  [[nodiscard]] std::unexpected<Error> broken(std::string_view how) const {
    return fail(ErrorCode::kCorrupt, fmt::format("page of samples {} at byte {}", how, at_));
  }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

/// The members of one kind, in the order in which they are written.
constexpr TimePoint TurnSample::* kInstants[] = {
    &TurnSample::intended,    &TurnSample::ready,      &TurnSample::handed, &TurnSample::sent,
    &TurnSample::first_token, &TurnSample::last_token, &TurnSample::ended};
constexpr std::uint32_t TurnSample::* kCounts[] = {
    &TurnSample::turn,           &TurnSample::prompt_tokens, &TurnSample::cached_tokens, &TurnSample::completion_tokens,
    &TurnSample::counted_tokens, &TurnSample::chunks,        &TurnSample::unstamped};
constexpr std::vector<float> TurnSample::* kLists[] = {&TurnSample::gaps_ms, &TurnSample::late_ms,
                                                       &TurnSample::unsure_ms};

std::string write_sample(const TurnSample& sample) {
  PageWriter out;
  out.number(sample.conversation.value());
  out.number(static_cast<std::uint8_t>(sample.outcome));
  out.number(static_cast<std::uint8_t>((sample.session ? kHasSession : 0) |
                                       (sample.predicted_cached_tokens ? kHasPrediction : 0)));
  if (sample.session) out.number(sample.session->value());
  if (sample.predicted_cached_tokens) out.number(*sample.predicted_cached_tokens);
  out.text(sample.error);
  out.text(sample.worker);
  for (const auto instant : kInstants) out.instant(sample.*instant);
  for (const auto count : kCounts) out.number(sample.*count);
  out.number(sample.longest_send_ms);
  for (const auto list : kLists) out.list(sample.*list);
  return out.take();
}

Result<TurnSample> read_sample(PageReader& in) {
  TurnSample sample;
  KVIST_TRY(const std::uint64_t conversation, in.number<std::uint64_t>());
  sample.conversation = ConversationId(conversation);
  KVIST_TRY(const std::uint8_t outcome, in.number<std::uint8_t>());
  if (outcome > static_cast<std::uint8_t>(TurnOutcome::kAbandoned)) return in.broken("has an unknown outcome");
  sample.outcome = static_cast<TurnOutcome>(outcome);
  KVIST_TRY(const std::uint8_t has, in.number<std::uint8_t>());
  if (has > (kHasSession | kHasPrediction)) return in.broken("has unknown members");
  if ((has & kHasSession) != 0) {
    KVIST_TRY(const std::uint64_t session, in.number<std::uint64_t>());
    sample.session = ConversationId(session);
  }
  if ((has & kHasPrediction) != 0) {
    KVIST_TRY(sample.predicted_cached_tokens, in.number<std::uint32_t>());
  }
  KVIST_TRY(sample.error, in.text());
  KVIST_TRY(sample.worker, in.text());
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

std::string head_of(std::uint64_t first, bool more, std::uint32_t count) {
  PageWriter out;
  out.number(first);
  out.number(static_cast<std::uint8_t>(more ? 1 : 0));
  out.number(count);
  return std::string(kMark) + out.take();
}

}  // namespace

std::string write_sample_page(const SamplePage& page) {
  std::string bytes = head_of(page.first, page.more, static_cast<std::uint32_t>(page.samples.size()));
  for (const TurnSample& sample : page.samples) bytes += write_sample(sample);
  return bytes;
}

Result<SamplePage> read_sample_page(std::string_view bytes) {
  PageReader in(bytes);
  if (!in.begins_with(kMark)) return in.broken("has no mark");
  SamplePage page;
  KVIST_TRY(page.first, in.number<std::uint64_t>());
  KVIST_TRY(const std::uint8_t more, in.number<std::uint8_t>());
  if (more > 1) return in.broken("has an unknown flag");
  page.more = more == 1;
  KVIST_TRY(const std::uint32_t count, in.number<std::uint32_t>());
  for (std::uint32_t i = 0; i < count; ++i) {
    KVIST_TRY(page.samples.emplace_back(), read_sample(in));
  }
  if (in.left() > 0) return in.broken("goes on");
  return page;
}

void SampleOutbox::add(std::vector<TurnSample> samples) {
  for (const TurnSample& sample : samples) {
    std::string bytes = write_sample(sample);
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

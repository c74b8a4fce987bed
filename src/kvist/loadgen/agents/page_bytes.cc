#include "kvist/loadgen/agents/page_bytes.h"

#include <fmt/format.h>

namespace kvist::loadgen {

Result<TimePoint> PageReader::instant() {
  KVIST_TRY(const std::int64_t ns, number<std::int64_t>());
  if (ns < 0 || ns > kMostClockNs) return broken("has an instant out of bounds");
  return TimePoint(Duration(ns));
}

Result<std::string> PageReader::text(std::size_t most) {
  KVIST_TRY(const std::uint32_t size, number<std::uint32_t>());
  if (size > most || size > left()) return broken("has a text that is too long");
  std::string text(bytes_.substr(at_, size));
  at_ += size;
  return text;
}

Result<std::uint32_t> PageReader::length(std::size_t bytes_each) {
  KVIST_TRY(const std::uint32_t size, number<std::uint32_t>());
  if (size > left() / bytes_each) return broken("has a list that is too long");
  return size;
}

Result<std::vector<float>> PageReader::list() {
  KVIST_TRY(const std::uint32_t size, length(sizeof(float)));
  std::vector<float> values(size);
  if (size > 0) std::memcpy(values.data(), bytes_.data() + at_, size * sizeof(float));
  at_ += size * sizeof(float);
  for (const float value : values) {
    if (!std::isfinite(value)) return broken("has a number that is not finite");
  }
  return values;
}

bool PageReader::begins_with(std::string_view mark) {
  if (!bytes_.substr(at_).starts_with(mark)) return false;
  at_ += mark.size();
  return true;
}

std::unexpected<Error> PageReader::broken(std::string_view how) const {
  return fail(ErrorCode::kCorrupt, fmt::format("{} {} at byte {}", what_, how, at_));
}

}  // namespace kvist::loadgen

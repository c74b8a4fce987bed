#include "kvist/gateway/decisions_query.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace kvist::gateway {
namespace {

template <class Number>
std::optional<Number> read_number(std::string_view digits, int base) {
  Number number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

Result<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const auto byte = text.size() - i > 2 ? read_number<unsigned char>(text.substr(i + 1, 2), 16) : std::nullopt;
    if (!byte) return fail(ErrorCode::kInvalidArgument, "query: expected two hexadecimal digits after %");
    decoded += static_cast<char>(*byte);
    i += 2;
  }
  return decoded;
}

Result<void> set(DecisionsQuery& query, std::string_view key, std::string value) {
  if (key == "request") {
    query.request = std::move(value);
    return {};
  }
  if (key == "limit") {
    const auto limit = read_number<std::size_t>(value, 10);
    if (!limit || *limit == 0 || *limit > kMaxDecisionsLimit) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("limit: expected a whole number from 1 to {}, got \"{}\"", kMaxDecisionsLimit, value));
    }
    query.limit = *limit;
    return {};
  }
  if (key == "model") {
    query.model = std::move(value);
    return {};
  }
  return fail(ErrorCode::kInvalidArgument, fmt::format("{}: unknown; known are limit, request and model", key));
}

}  // namespace

Result<std::vector<std::pair<std::string, std::string>>> query_fields(std::string_view target) {
  std::vector<std::pair<std::string, std::string>> fields;
  const std::size_t mark = target.find('?');
  std::string_view rest = mark == std::string_view::npos ? "" : target.substr(mark + 1);
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
    if (pair.empty()) continue;
    const std::size_t equals = std::min(pair.find('='), pair.size());
    KVIST_TRY(std::string value, percent_decoded(pair.substr(std::min(equals + 1, pair.size()))));
    fields.emplace_back(pair.substr(0, equals), std::move(value));
  }
  return fields;
}

Result<DecisionsQuery> parse_decisions_query(std::string_view target) {
  DecisionsQuery query;
  KVIST_TRY(const auto fields, query_fields(target));
  for (const auto& [key, value] : fields) KVIST_TRY_VOID(set(query, key, value));
  return query;
}

}  // namespace kvist::gateway

#include "kvist/spec/observation_yaml.h"

#include <fmt/format.h>

#include <array>

#include "kvist/spec/fields.h"

namespace kvist::spec {
namespace {

constexpr auto kFormats = std::to_array<Word<LogFormat>>({{"text", LogFormat::kText}, {"json", LogFormat::kJson}});
constexpr auto kLevels = std::to_array<Word<LogThreshold>>({{"debug", LogThreshold::kDebug},
                                                            {"info", LogThreshold::kInfo},
                                                            {"warning", LogThreshold::kWarning},
                                                            {"error", LogThreshold::kError}});

/// http://host:port/path or https://host:port/path, and nothing that does not belong into a request's head.
bool is_http_url(std::string_view url) {
  const std::size_t scheme = url.starts_with("https://") ? 8 : url.starts_with("http://") ? 7 : 0;
  if (scheme == 0) return false;
  const std::size_t path = url.find('/', scheme);
  if (path == std::string_view::npos || path == scheme) return false;
  for (const char c : url) {
    if (c <= ' ' || c > '~') return false;
  }
  return true;
}

template <class T, std::size_t N>
Result<T> value_of(std::string_view what, const std::array<Word<T>, N>& words, std::string_view text) {
  std::string known;
  for (const Word<T>& word : words) {
    if (word.text == text) return word.value;
    known.append(known.empty() ? "" : " or ").append(word.text);
  }
  return fail(ErrorCode::kInvalidArgument, fmt::format("{}: expected {}, got \"{}\"", what, known, text));
}

}  // namespace

Result<LogFormat> parse_log_format(std::string_view word) {
  return value_of("log format", kFormats, word);
}

Result<LogThreshold> parse_log_level(std::string_view word) {
  return value_of("log level", kLevels, word);
}

Result<void> read_log(const YamlNode& service, LogSpec& log) {
  const auto node = service.get("log");
  if (!node) return {};
  KVIST_TRY_VOID(read_word(*node, "format", kFormats, log.format));
  KVIST_TRY_VOID(read_word(*node, "level", kLevels, log.level));
  return node->finish();
}

void write_log(YamlWriter& out, const LogSpec& log) {
  if (log == LogSpec{}) return;
  out.begin_map("log").field("format", word_of(kFormats, log.format));
  out.field("level", word_of(kLevels, log.level)).end_map();
}

Result<void> read_access_log(const YamlNode& service, const std::string& base_directory, AccessLogSpec& log) {
  const auto node = service.get("access_log");
  if (!node) return {};
  KVIST_TRY_VOID(read_field(service, "access_log", log.file));
  if (log.file == "stderr" || log.file == "stdout") return {};
  if (log.file == "off") {
    log.file.clear();
    return {};
  }
  return read_path(service, "access_log", base_directory, log.file);
}

void write_access_log(YamlWriter& out, const AccessLogSpec& log) {
  if (!log.file.empty()) out.field("access_log", log.file);
}

Result<void> read_otlp(const YamlNode& service, OtlpSpec& otlp) {
  const auto node = service.get("otlp");
  if (!node) return {};
  KVIST_TRY_VOID(read_field(*node, "endpoint", otlp.endpoint));
  KVIST_TRY_VOID(read_field(*node, "service_name", otlp.service_name));
  KVIST_TRY_VOID(read_field(*node, "sample_ratio", otlp.sample_ratio, 0.0, 1.0));
  KVIST_TRY_VOID(read_field(*node, "max_waiting", otlp.max_waiting, 1, 1'000'000));
  KVIST_TRY_VOID(read_field(*node, "interval", otlp.interval, std::chrono::milliseconds(10)));
  KVIST_TRY_VOID(read_field(*node, "timeout", otlp.timeout, std::chrono::milliseconds(10)));
  KVIST_TRY_VOID(node->finish());
  if (is_http_url(otlp.endpoint)) return {};
  return std::unexpected(node->error(fmt::format(
      "endpoint: expected a collector's address like http://127.0.0.1:4318/v1/traces, got \"{}\"", otlp.endpoint)));
}

void write_otlp(YamlWriter& out, const OtlpSpec& otlp) {
  if (otlp.endpoint.empty()) return;
  out.begin_map("otlp").field("endpoint", otlp.endpoint).field("service_name", otlp.service_name);
  out.field("sample_ratio", otlp.sample_ratio).field("max_waiting", otlp.max_waiting);
  out.field("interval", otlp.interval).field("timeout", otlp.timeout).end_map();
}

}  // namespace kvist::spec

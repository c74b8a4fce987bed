#include "kvist/spec/observation_yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <utility>
#include <vector>

#include "kvist/spec/exposure_yaml.h"
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

namespace {

constexpr std::size_t kMostHeaders = 16;
constexpr std::size_t kMostHeaderBytes = 4'096;

std::string lowered(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

/// Whether a collector may ask for a field of this name: not those that the gateway sets by itself.
bool is_header_name(std::string_view lower) {
  constexpr auto kOwn =
      std::to_array<std::string_view>({"host", "connection", "content-type", "content-length", "content-encoding",
                                       "transfer-encoding", "expect", "te", "trailer", "upgrade"});
  return !lower.empty() && lower.size() <= 64 && std::ranges::find(kOwn, lower) == kOwn.end() &&
         std::ranges::all_of(
             lower, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_'; });
}

bool is_header_value(std::string_view text) {
  return !text.empty() && text.size() <= kMostHeaderBytes && text.front() != ' ' && text.back() != ' ' &&
         std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

// Errors do not have the value: it may be a key.
Result<void> read_headers(const YamlNode& map, const std::string& base_directory, std::vector<OtlpHeader>& headers) {
  const auto node = map.get("headers");
  if (!node) return {};
  KVIST_TRY(const auto entries, node->entries());
  if (entries.size() > kMostHeaders) return std::unexpected(node->error(fmt::format("more than {}", kMostHeaders)));
  std::set<std::string> names;
  headers.clear();
  for (const auto& [name, value] : entries) {
    const std::string lower = lowered(name);
    if (!is_header_name(lower))
      return std::unexpected(value.error("is no header field of letters, digits and hyphens that can be set here"));
    if (!names.insert(lower).second) return std::unexpected(value.error("is there twice"));
    OtlpHeader& header = headers.emplace_back(OtlpHeader{.name = name});
    if (value.is_map()) {
      KVIST_TRY_VOID(value.require("file"));
      KVIST_TRY_VOID(read_path(value, "file", base_directory, header.file));
      KVIST_TRY_VOID(value.finish());
      if (header.file.empty()) return std::unexpected(value.error("file: expected a file's name"));
    } else {
      KVIST_TRY(header.value, value.as_string());
      if (!is_header_value(header.value))
        return std::unexpected(
            value.error(fmt::format("expected {{file: ...}}, or at most {} printable characters that "
                                    "begin and end with none that is blank",
                                    kMostHeaderBytes)));
    }
  }
  return {};
}

void write_headers(YamlWriter& out, const std::vector<OtlpHeader>& headers) {
  if (headers.empty()) return;
  out.begin_map("headers");
  for (const OtlpHeader& header : headers) {
    if (header.file.empty()) {
      out.field(header.name, header.value);
    } else {
      out.begin_map(header.name).field("file", header.file).end_map();
    }
  }
  out.end_map();
}

}  // namespace

Result<void> read_otlp(const YamlNode& service, const std::string& base_directory, OtlpSpec& otlp) {
  const auto node = service.get("otlp");
  if (!node) return {};
  KVIST_TRY_VOID(read_field(*node, "endpoint", otlp.endpoint));
  KVIST_TRY_VOID(read_field(*node, "service_name", otlp.service_name));
  KVIST_TRY_VOID(read_field(*node, "sample_ratio", otlp.sample_ratio, 0.0, 1.0));
  KVIST_TRY_VOID(read_field(*node, "max_waiting", otlp.max_waiting, 1, 1'000'000));
  KVIST_TRY_VOID(read_field(*node, "interval", otlp.interval, std::chrono::milliseconds(10)));
  KVIST_TRY_VOID(read_field(*node, "timeout", otlp.timeout, std::chrono::milliseconds(10)));
  KVIST_TRY_VOID(read_headers(*node, base_directory, otlp.headers));
  KVIST_TRY_VOID(read_client_tls(*node, "tls", base_directory, otlp.tls));
  KVIST_TRY_VOID(node->finish());
  // What may be a password is not repeated.
  if (otlp.endpoint.contains('@'))
    return std::unexpected(
        node->error("endpoint: expected a collector's address without a user name or password (headers has fields, "
                    "from files too)"));
  if (is_http_url(otlp.endpoint)) return {};
  return std::unexpected(node->error(fmt::format(
      "endpoint: expected a collector's address like http://127.0.0.1:4318/v1/traces, got \"{}\"", otlp.endpoint)));
}

void write_otlp(YamlWriter& out, const OtlpSpec& otlp) {
  if (otlp.endpoint.empty()) return;
  out.begin_map("otlp").field("endpoint", otlp.endpoint).field("service_name", otlp.service_name);
  out.field("sample_ratio", otlp.sample_ratio).field("max_waiting", otlp.max_waiting);
  out.field("interval", otlp.interval).field("timeout", otlp.timeout);
  write_headers(out, otlp.headers);
  write_client_tls(out, "tls", otlp.tls);
  out.end_map();
}

}  // namespace kvist::spec

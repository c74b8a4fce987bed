#include "kvist/telemetry/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <string>

#include "kvist/base/json_writer.h"
#include "kvist/base/utf8.h"

namespace kvist::telemetry {

namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

/// A percent sign would be read as a placeholder of the pattern.
std::string pattern_text(std::string_view text) {
  std::string out;
  for (const char c : text) out.append(c == '%' ? 2 : 1, c);
  return out;
}

std::atomic<bool> writes_json = false;

void append_escaped(std::string& line, unsigned char byte) {
  constexpr std::string_view kHex = "0123456789abcdef";
  line.append("\\x").append(1, kHex[byte >> 4]).append(1, kHex[byte & 15]);
}

/// The character that has a viewer show what follows in another order (U+202A to U+202E, U+2066 to U+2069), so that a
/// line seems to say something else; 0: it is another one.
unsigned reordering(std::string_view character) {
  if (character.size() != 3 || character[0] != '\xE2') return 0;
  const auto second = static_cast<unsigned char>(character[1]);
  const auto third = static_cast<unsigned char>(character[2]);
  const bool is_one =
      (second == 0x80 && third >= 0xAA && third <= 0xAE) || (second == 0x81 && third >= 0xA6 && third <= 0xA9);
  return is_one ? 0x2000U | (second & 0x3FU) << 6U | (third & 0x3FU) : 0;
}

/// What follows time, level and process in a line of text. One entry is one line, and does nothing to the terminal that
/// shows it, whatever a peer put into the message.
std::string text_of(std::string_view component, std::string_view message) {
  std::string line(component);
  line += ": ";
  for (std::size_t at = 0; at < message.size();) {
    const auto byte = static_cast<unsigned char>(message[at]);
    const std::size_t length = utf8_sequence_length(message.substr(at));
    if (byte == '\n' || byte == '\r') {
      line += ' ';
    } else if (byte < 0x20 || byte == 0x7F || length == 0) {
      append_escaped(line, byte);
    } else if (byte == 0xC2 && static_cast<unsigned char>(message[at + 1]) < 0xA0) {
      // U+0080 to U+009F, some of which terminals obey.
      append_escaped(line, static_cast<unsigned char>(message[at + 1]));
    } else if (const unsigned code = reordering(message.substr(at, length)); code != 0) {
      fmt::format_to(std::back_inserter(line), "\\u{:04x}", code);
    } else {
      line.append(message, at, length);
    }
    at += std::max<std::size_t>(length, 1);
  }
  return line;
}

std::string json_of(std::string_view component, std::string_view message) {
  std::string fields = "\"component\":";
  append_json_string(fields, component);
  fields += ",\"message\":";
  append_json_string(fields, message);
  return fields;
}

/// Never destroyed: threads may still log while the process ends.
spdlog::logger& logger() {
  static auto* const instance = [] {
    auto* made = new spdlog::logger("kvist", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
    made->flush_on(spdlog::level::debug);
    return made;
  }();
  return *instance;
}

}  // namespace

void start_logging(LogLevel level, std::string_view process, LogFormat format) {
  logger().set_level(to_spdlog(level));
  writes_json = format == LogFormat::kJson;
  if (format == LogFormat::kText) {
    logger().set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l " + pattern_text(process) + " %v");
    return;
  }
  std::string name;
  append_json_string(name, process);
  logger().set_pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","process":)" + pattern_text(name) + ",%v}");
}

void log(LogLevel level, std::string_view component, std::string_view message) {
  const auto spdlog_level = to_spdlog(level);
  if (!logger().should_log(spdlog_level)) return;
  const std::string line = writes_json ? json_of(component, message) : text_of(component, message);
  logger().log(spdlog_level, spdlog::string_view_t(line));
}

}  // namespace kvist::telemetry

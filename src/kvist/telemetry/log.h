// Logging of the services. Nothing below `net` logs.
#pragma once

#include <string_view>

namespace kvist::telemetry {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// Sets the least level that is written and the name of this process in each line. Lines go to standard error.
void start_logging(LogLevel level, std::string_view process);
/// One line: time, level, process, component, message. Thread-safe.
void log(LogLevel level, std::string_view component, std::string_view message);

inline void log_debug(std::string_view component, std::string_view message) {
  log(LogLevel::kDebug, component, message);
}
inline void log_info(std::string_view component, std::string_view message) {
  log(LogLevel::kInfo, component, message);
}
inline void log_warning(std::string_view component, std::string_view message) {
  log(LogLevel::kWarning, component, message);
}
inline void log_error(std::string_view component, std::string_view message) {
  log(LogLevel::kError, component, message);
}

}  // namespace kvist::telemetry

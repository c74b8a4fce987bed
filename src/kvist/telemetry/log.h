// Logging of the services. Modules below `net` do not log.
#pragma once

#include <string_view>

namespace kvist::telemetry {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

enum class LogFormat {
  kText,  ///< time, level, process, component and message in a line
  kJson,  ///< the same as an object
};

/// Sets the minimum level and the name of this process for all lines, which are written to standard error. Threads: to
/// be called before others log.
void start_logging(LogLevel level, std::string_view process, LogFormat format = LogFormat::kText);
/// Writes one line. Threads: any.
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

// What a service says about itself and about the requests that it serves: logs and traces.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/spec/exposure_spec.h"

namespace kvist::spec {

enum class LogFormat : std::uint8_t {
  kText,
  kJson,  ///< one object per line
};

enum class LogThreshold : std::uint8_t { kDebug, kInfo, kWarning, kError };

/// "json" and "warning", as in a file. Errors name the words that there are.
[[nodiscard]] Result<LogFormat> parse_log_format(std::string_view word);
[[nodiscard]] Result<LogThreshold> parse_log_level(std::string_view word);

/// The log, which goes to standard error.
struct LogSpec {
  LogFormat format = LogFormat::kText;
  LogThreshold level = LogThreshold::kInfo;  ///< entries below it are left out

  bool operator==(const LogSpec&) const = default;
};

/// The log of requests, one line for each, in the format of the log.
struct AccessLogSpec {
  /// A file that is appended to; "stderr" or "stdout": where the process writes; empty: requests are not logged.
  std::string file = {};

  bool operator==(const AccessLogSpec&) const = default;
};

/// A field of the head of each batch of traces: what it says, or the file whose first line does. A key belongs into a
/// file, because settings are written into results.
struct OtlpHeader {
  std::string name;
  std::string value = {};  ///< empty: `file` has it
  std::string file = {};

  bool operator==(const OtlpHeader&) const = default;
};

/// Traces, sent to a collector as OTLP over HTTP, in JSON.
struct OtlpSpec {
  std::string endpoint = {};  ///< http://host:port/v1/traces; empty: nothing is traced
  std::string service_name = "kvist-gateway";
  /// Of the requests whose client has decided nothing, this share is traced; of the others those that the client's
  /// traceparent marks as sampled.
  double sample_ratio = 1;
  std::uint32_t max_waiting = 8'192;            ///< requests whose spans wait to be sent; further ones are dropped
  Duration interval = std::chrono::seconds(1);  ///< between batches
  Duration timeout = std::chrono::seconds(10);  ///< of one
  std::vector<OtlpHeader> headers = {};         ///< that the collector asks for, such as a key
  ClientTlsSpec tls = {};                       ///< if the collector's address is https

  bool operator==(const OtlpSpec&) const = default;
};

}  // namespace kvist::spec

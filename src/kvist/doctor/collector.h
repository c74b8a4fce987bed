// Asks for the facts of an examination.
#pragma once

#include <memory>
#include <string>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/doctor/snapshot.h"
#include "kvist/net/tls.h"

namespace kvist::doctor {

struct CollectOptions {
  Duration timeout = std::chrono::seconds(5);  ///< of each question
  std::string api_key = {};                    ///< for the gateway's administration; empty: none is sent
  std::shared_ptr<net::TlsClient> tls = {};    ///< for the same if it is https; null: the system's authorities
};

/// The facts of a file with a `gateway:`, `deployment:` or `worker:` mapping, and of the workers that a gateway's
/// names. Errors: the file cannot be read as any of these. Blocks.
[[nodiscard]] Result<Snapshot> collect_from_file(const std::string& file, const CollectOptions& options);

/// The facts of a running gateway, by the URL of its listener for administration, and of its workers as far as they are
/// reached from here. Errors: the gateway does not answer as one. Blocks.
[[nodiscard]] Result<Snapshot> collect_from_gateway(std::string url, const CollectOptions& options);

/// Whether the gateway at that URL, by its listener for administration or that for requests, takes requests: its
/// /health, which wants no key. Errors: it does not answer, or says that it does not. Blocks.
[[nodiscard]] Result<void> ask_whether_alive(const std::string& url, const CollectOptions& options);

}  // namespace kvist::doctor

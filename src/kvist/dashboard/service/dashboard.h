// The dashboard as a service: a thread with a listener, which shows a load and a fleet to those who look.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/dashboard/baseline.h"
#include "kvist/dashboard/board.h"
#include "kvist/dashboard/run_library.h"
#include "kvist/dashboard/sweep_progress.h"
#include "kvist/loadgen/load_watch.h"
#include "kvist/net/http_client.h"
#include "kvist/net/tls.h"

namespace kvist::dashboard {

/// The settings with which a load that the page starts begins.
struct LoadPlan {
  std::uint32_t concurrency = 1;     ///< of an open load, arrivals per minute
  std::optional<double> rate_per_s;  ///< of starts at most; nothing: no limit
  std::uint64_t seed = 1;            ///< of the first load; each later one has the next
  std::uint64_t begun = 0;           ///< loads that were begun before the dashboard's first one
};

struct DashboardOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;                    ///< 0: any
  std::shared_ptr<net::TlsServer> tls = {};  ///< null: plain HTTP
  Facts facts;                               ///< token_required follows from the host
  std::optional<Baseline> baseline = {};
  std::string gateway = {};  ///< URL of its listener for administration; empty: none, or not yet
  net::ServerSettings gateway_settings = {};
  std::shared_ptr<loadgen::LoadWatch> load = {};  ///< null: there is none
  LoadPlan plan = {};
  bool passes_control = false;            ///< other paths are the load generator's control API
  std::vector<std::string> results = {};  ///< databases, or folders that hold one
};

/// Owns the thread. Threads: one other than its own, to which what it shows is handed over.
class Dashboard {
 public:
  /// Binds and listens. Errors: the address is not free, a database cannot be read.
  [[nodiscard]] static Result<std::unique_ptr<Dashboard>> start(DashboardOptions options);
  virtual ~Dashboard() = default;

  [[nodiscard]] virtual std::uint16_t port() const = 0;
  /// What a browser opens, with the token behind # if one is needed.
  [[nodiscard]] virtual std::string url() const = 0;

  /// Another gateway from now on.
  virtual void set_gateway(const std::string& admin_url, const net::ServerSettings& settings) = 0;
  virtual void set_sweep(SweepProgress progress) = 0;
};

}  // namespace kvist::dashboard

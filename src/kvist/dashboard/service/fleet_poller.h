// Reads the gateway and its workers once a second.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/dashboard/board.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_client.h"
#include "kvist/spec/routing_mode.h"

namespace kvist::dashboard {

/// Asks a gateway's listener for administration for its state, and the workers that it names for their metrics. One
/// round at a time: a gateway that is slow is asked less often. Threads: the loop's.
class FleetPoller {
 public:
  using Handler = std::function<void(FleetReading reading, GatewayLink link)>;

  FleetPoller(net::EventLoop& loop, Handler handler);

  /// From now on this gateway is asked; an empty URL: none.
  void set_gateway(std::string url, net::ServerSettings settings);
  [[nodiscard]] const std::string& gateway() const { return url_; }

  /// Begins a round, unless one is under way.
  void poll();
  /// The last `limit` decisions, as docs/formats/decisions.md, with t_ms: {"type":"decisions",...}. Unless one is
  /// under way.
  void ask_decisions(std::size_t limit, double unix_s, std::function<void(std::string)> done);
  /// Sets the routing mode; with several models that of the first. `done` gets the error if it could not.
  void set_mode(spec::RoutingMode mode, std::function<void(Result<void>)> done);

 private:
  void on_status(Result<net::HttpResponse> answer);
  void on_counters(Result<net::HttpResponse> answer);
  void on_page(const std::string& worker, Result<net::HttpResponse> answer);
  void ask_workers();
  void ended();
  [[nodiscard]] std::unique_ptr<net::HttpCall> get(const std::string& url, const std::string& path,
                                                   std::function<void(Result<net::HttpResponse>)> done);

  net::EventLoop& loop_;
  net::HttpClient client_;
  Handler handler_;
  std::string url_;
  FleetReading reading_;
  GatewayLink link_;
  std::string model_;        // to be named, as there are several; else empty
  std::size_t awaited_ = 0;  // answers of the round under way
  std::vector<std::unique_ptr<net::HttpCall>> calls_;
  std::unique_ptr<net::HttpCall> decisions_;
  std::vector<std::unique_ptr<net::HttpCall>> changes_;
};

/// The message "decisions" from an answer of GET /admin/decisions. `unix_s`: when it came.
[[nodiscard]] Result<std::string> decisions_message(std::string_view answer, double unix_s);

}  // namespace kvist::dashboard

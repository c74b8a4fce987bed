// The dashboard on its loop: listener, viewers, the second's beat.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "kvist/dashboard/board.h"
#include "kvist/dashboard/command.h"
#include "kvist/dashboard/service/dashboard.h"
#include "kvist/dashboard/service/fleet_poller.h"
#include "kvist/dashboard/service/load_control.h"
#include "kvist/dashboard/service/run_queries.h"
#include "kvist/dashboard/service/viewer.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_server.h"

namespace kvist::dashboard {

/// Asks the load and the fleet at each whole second, and a moment later sends all viewers what came. Threads: the
/// loop's. Memory: the board's, and at most kMostViewers times what a viewer may leave unread.
class Host {
 public:
  static constexpr std::size_t kMostViewers = 32;

  Host(net::EventLoop& loop, DashboardOptions options, RunLibrary library, std::string token);
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  [[nodiscard]] Result<void> listen();
  [[nodiscard]] std::uint16_t port() const { return server_->port(); }
  void set_gateway(const std::string& admin_url, const net::ServerSettings& settings);
  void set_sweep(SweepProgress progress);

 private:
  // Requests.
  void handle(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange);
  void open_viewer(const net::HttpRequest& request, const std::shared_ptr<net::HttpExchange>& exchange);
  void pass_on(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange);
  /// Whether it is the token, or none is needed.
  [[nodiscard]] bool is_token(std::string_view text) const;
  [[nodiscard]] bool has_token(const net::HttpRequest& request) const;
  void download(std::string_view path, const std::shared_ptr<net::HttpExchange>& exchange);
  [[nodiscard]] std::string state_json() const;

  // Viewers.
  void greet(Viewer& viewer);
  void on_text(std::uint64_t number, std::string_view text);
  void carry_out(std::uint64_t number, const Command& command);
  void answer(std::uint64_t number, std::uint64_t id, const Result<std::string>& result);
  void ask_runs(std::uint64_t number, std::uint64_t id, std::function<Result<std::string>(RunLibrary&)> question);
  void subscribe(Viewer& viewer, const Subscribe& order);
  /// Answers a change, with what was set.
  [[nodiscard]] LoadControl::Done confirm(std::uint64_t number, std::uint64_t id, std::string result);

  // The beat.
  void beat_later();
  void ask();
  void tell();
  void tell(Viewer& viewer);
  void tell_topics(Viewer& viewer);
  void on_decisions(const std::string& message);

  net::EventLoop& loop_;
  const DashboardOptions options_;
  const std::string token_;  // empty: none is needed
  Board board_;
  FleetPoller poller_;
  LoadControl load_;
  std::unique_ptr<RunQueries> runs_;  // null: no runs
  net::Timer timer_;
  std::map<std::uint64_t, Viewer> viewers_;
  std::uint64_t last_viewer_ = 0;
  std::string decisions_;
  std::uint64_t decisions_version_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::unique_ptr<net::HttpServer> server_;  // last, so that it is destroyed first
};

}  // namespace kvist::dashboard

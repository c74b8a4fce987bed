#include "kvist/dashboard/service/dashboard.h"

#include <fmt/format.h>

#include <future>
#include <thread>
#include <utility>

#include "kvist/dashboard/service/host.h"
#include "kvist/net/admin_listener.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/sha256.h"

namespace kvist::dashboard {
namespace {

constexpr std::size_t kTokenBytes = 16;

class Thread final : public Dashboard {
 public:
  explicit Thread(DashboardOptions options) : host_name_(options.host), has_tls_(options.tls != nullptr) {
    if (!net::is_loopback(options.host)) token_ = net::random_text(kTokenBytes);
    options_ = std::move(options);
  }
  ~Thread() override {
    if (!thread_.joinable()) return;
    loop_.post([this] {
      host_.reset();
      // Once more around, so that the viewers' sockets take what was said to them.
      loop_.post([this] { loop_.stop(); });
    });
    thread_.join();
  }

  Result<void> begin() {
    RunLibrary library;
    for (const std::string& place : options_.results) KVIST_TRY_VOID(library.add(place));
    thread_ = std::thread([this] { loop_.run(); });
    std::promise<Result<void>> listening;
    auto listened = listening.get_future();
    // Shared, because a posted function has to be copyable.
    const auto shared = std::make_shared<RunLibrary>(std::move(library));
    loop_.post([this, &listening, shared] {
      host_ = std::make_unique<Host>(loop_, std::move(options_), std::move(*shared), token_);
      auto done = host_->listen();
      if (done) port_ = host_->port();
      if (!done) host_.reset();
      listening.set_value(std::move(done));
    });
    return listened.get();
  }

  [[nodiscard]] std::uint16_t port() const override { return port_; }
  [[nodiscard]] std::string url() const override {
    const std::string name = net::is_any_address(host_name_) ? "localhost" : host_name_;
    const bool is_v6 = name.contains(':');
    return fmt::format("{}://{}{}{}:{}/dashboard/{}{}", has_tls_ ? "https" : "http", is_v6 ? "[" : "", name,
                       is_v6 ? "]" : "", port_, token_.empty() ? "" : "#token=", token_);
  }

  void set_gateway(const std::string& admin_url, const net::ServerSettings& settings) override {
    loop_.post([this, admin_url, settings] {
      if (host_) host_->set_gateway(admin_url, settings);
    });
  }
  void set_sweep(SweepProgress progress) override {
    loop_.post([this, progress = std::move(progress)] {
      if (host_) host_->set_sweep(progress);
    });
  }

 private:
  const std::string host_name_;
  const bool has_tls_;
  std::string token_;
  DashboardOptions options_;
  net::EventLoop loop_;
  std::unique_ptr<Host> host_;  // made, used and destroyed on the loop's thread
  std::uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Dashboard>> Dashboard::start(DashboardOptions options) {
  auto dashboard = std::make_unique<Thread>(std::move(options));
  KVIST_TRY_VOID(dashboard->begin());
  return dashboard;
}

}  // namespace kvist::dashboard

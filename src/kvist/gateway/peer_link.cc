#include "kvist/gateway/peer_link.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "kvist/base/input_file.h"
#include "kvist/base/random.h"
#include "kvist/net/time_of_day.h"
#include "kvist/telemetry/log.h"

namespace kvist::gateway {
namespace {

/// What may wait for the loop; a gateway that is so far behind is better off with the next states.
constexpr std::size_t kMaxWaitingBytes = std::size_t{32} << 20;
constexpr auto kLookPeriod = std::chrono::seconds(2);

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "gateway";
}

Result<std::string> read_secret(const std::string& file) {
  constexpr std::size_t kMostBytes = 4'096;
  if (file.empty()) return std::string();
  KVIST_TRY(std::string secret, read_file(file, kMostBytes));
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  if (secret.empty()) return fail(ErrorCode::kInvalidArgument, fmt::format("{}: is empty", file));
  return secret;
}

std::string default_name(const spec::GatewaySpec& gateway) {
  return fmt::format("{}-{}", host_name(), gateway.http.port != 0 ? gateway.http.port : getpid());
}

/// Of a file that is not there, NATS's client says "SSL Error".
Result<void> check_files(const spec::PeersSpec& peers) {
  const std::array files = {std::pair("credentials_file", &peers.credentials_file), std::pair("tls.ca", &peers.tls.ca),
                            std::pair("tls.certificate", &peers.tls.certificate), std::pair("tls.key", &peers.tls.key)};
  for (const auto& [key, file] : files) {
    std::error_code unknown;
    if (file->empty() || std::filesystem::exists(*file, unknown)) continue;
    return fail(ErrorCode::kNotFound, fmt::format("gateway.peers.{}: {}: no such file", key, *file));
  }
  return {};
}

}  // namespace

std::string peer_key(std::string_view name) {
  return fmt::format("{:016x}", mix_seed({seed_part("name between gateways"), seed_part(name)}));
}

struct PeerLink::Home {
  net::EventLoop* loop = nullptr;
  PeerLink* link = nullptr;  // null: it is gone; the loop's
  std::atomic<std::size_t> waiting_bytes = 0;
  std::atomic<std::uint64_t> dropped = 0;

  static void post(const std::shared_ptr<Home>& home, std::function<void(PeerLink&)> work) {
    home->loop->post([home, work = std::move(work)] {
      if (home->link != nullptr) work(*home->link);
    });
  }
};

Result<std::unique_ptr<PeerLink>> PeerLink::create(net::EventLoop& loop, const spec::GatewaySpec& gateway) {
  spec::PeersSpec peers = gateway.peers;
  KVIST_TRY_VOID(check_files(peers));
  if (peers.name.empty()) peers.name = default_name(gateway);
  auto token = read_secret(peers.token_file);
  if (!token) return std::unexpected(std::move(token).error().in("gateway.peers.token_file"));
  auto password = read_secret(peers.password_file);
  if (!password) return std::unexpected(std::move(password).error().in("gateway.peers.password_file"));
  std::string bucket = peers.group + "-fleet";
  for (char& letter : bucket)
    if (letter == '.') letter = '_';
  return std::unique_ptr<PeerLink>(new PeerLink(loop, peers,
                                                {.servers = peers.nats,
                                                 .name = peers.name,
                                                 .bucket = bucket,
                                                 .credentials_file = peers.credentials_file,
                                                 .token = *std::move(token),
                                                 .user = peers.user,
                                                 .password = *std::move(password),
                                                 .ca = peers.tls.ca,
                                                 .server_name = peers.tls.server_name,
                                                 .certificate = peers.tls.certificate,
                                                 .key = peers.tls.key}));
}

PeerLink::PeerLink(net::EventLoop& loop, const spec::PeersSpec& peers, nats::ClientOptions options)
    : loop_(&loop),
      options_(std::move(options)),
      name_(peers.name),
      run_(static_cast<std::uint64_t>(
          std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
              .count())),
      prefix_(peers.group + ".load."),
      index_prefix_(peers.group + ".index."),
      inbox_prefix_(fmt::format("_INBOX.kvist.{}.{:x}.", peer_key(name_), run_)),
      patience_(peers.patience),
      home_(std::make_shared<Home>()),
      timer_(loop) {
  home_->loop = &loop;
  home_->link = this;
  options_.subjects = {prefix_ + "*", index_prefix_ + "*." + peer_key(name_), inbox_prefix_ + "*"};
  report_.problem = "not connected yet";
  report_.table_problem = "not asked for yet";
}

PeerLink::~PeerLink() {
  home_->link = nullptr;
  client_.reset();
}

Result<void> PeerLink::start() {
  if (auto connected = connect(); !connected) {
    if (connected.error().code != ErrorCode::kUnavailable)
      return std::unexpected(std::move(connected).error().in("gateway.peers"));
    report_.problem = connected.error().message;
  }
  timer_.arm(net::now() + kLookPeriod, [this] { look_after(); });
  return {};
}

Result<void> PeerLink::connect() {
  if (client_) rows_ = client_->unwritten_rows();
  client_.reset();
  nats::ClientHandlers handlers{
      .on_message =
          [home = home_](std::string_view subject, std::string_view reply_to, std::string_view bytes) {
            if (home->waiting_bytes.fetch_add(bytes.size()) + bytes.size() > kMaxWaitingBytes) {
              home->waiting_bytes -= bytes.size();
              ++home->dropped;
              return;
            }
            Home::post(home, [home, subject = std::string(subject), reply_to = std::string(reply_to),
                              bytes = std::string(bytes)](PeerLink& link) {
              home->waiting_bytes -= bytes.size();
              link.on_message(subject, reply_to, bytes);
            });
          },
      .on_connection =
          [home = home_](bool connected, const std::string& problem) {
            Home::post(home, [connected, problem](PeerLink& link) { link.on_connection(connected, problem); });
          },
      .on_row =
          [home = home_](const std::string& key, const std::optional<std::string>& value) {
            Home::post(home, [key, value](PeerLink& link) { link.on_row_(key, value); });
          },
      .on_table =
          [home = home_](const std::string& problem) {
            Home::post(home, [problem](PeerLink& link) {
              if (std::exchange(link.report_.table_problem, problem) != problem && !problem.empty())
                telemetry::log_warning("peers",
                                       fmt::format("what is decided here is not shared, nor the other way round: {} "
                                                   "(JetStream's key-value store is needed)",
                                                   problem));
            });
          }};
  KVIST_TRY(client_, nats::Client::start(options_, std::move(handlers), rows_));
  rows_.clear();
  return {};
}

// A client that the server has refused for good does not try again.
void PeerLink::look_after() {
  if (!client_ || client_->has_ended()) {
    if (const auto connected = connect(); !connected) report_.problem = connected.error().message;
  }
  timer_.arm(net::now() + kLookPeriod, [this] { look_after(); });
}

void PeerLink::on_connection(bool connected, const std::string& problem) {
  const bool was_connected = std::exchange(report_.connected, connected);
  report_.problem = problem;
  if (connected) {
    ++report_.connections;
    telemetry::log_info("peers", fmt::format("{} is connected to {}, group {}", name_, options_.servers,
                                             prefix_.substr(0, prefix_.find('.'))));
    for (const Listener* const listener : listeners_) listener->on_connected();
  } else if (was_connected) {
    telemetry::log_warning(
        "peers", fmt::format("cut off from {}: {}; it routes by what it sees itself", options_.servers, problem));
  }
}

void PeerLink::on_message(const std::string& subject, const std::string& reply_to, std::string_view bytes) {
  const auto tell = [&](std::string_view prefix, auto call) {
    if (!subject.starts_with(prefix)) return;
    std::string_view model = std::string_view(subject).substr(prefix.size());
    model = model.substr(0, model.find('.'));
    const auto listener = std::ranges::find(listeners_, model, [](const Listener* one) { return one->model; });
    if (listener != listeners_.end())
      call(**listener, std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()));
  };
  using Bytes = std::span<const std::uint8_t>;
  tell(prefix_, [](const Listener& listener, Bytes message) { listener.on_message(message); });
  tell(index_prefix_, [&](const Listener& listener, Bytes message) { listener.on_request(message, reply_to); });
  tell(inbox_prefix_, [](const Listener& listener, Bytes message) { listener.on_answer(message); });
}

void PeerLink::send(const std::string& model, std::string_view bytes) {
  count(client_ && client_->publish(prefix_ + model, bytes), bytes.size());
}

void PeerLink::count(bool was_sent, std::size_t bytes) {
  if (was_sent) {
    ++report_.sent;
    report_.sent_bytes += bytes;
  } else {
    ++report_.unsent;
  }
}

bool PeerLink::ask(const std::string& model, std::string_view gateway, std::string_view bytes) {
  const bool was_sent =
      client_ && client_->ask(index_prefix_ + model + "." + peer_key(gateway), inbox_prefix_ + model, bytes);
  count(was_sent, bytes.size());
  return was_sent;
}

void PeerLink::answer(const std::string& reply_to, std::string_view bytes) {
  // Whoever asks is not to make this gateway speak to others.
  if (!reply_to.starts_with("_INBOX.")) return;
  count(client_ && client_->publish(reply_to, bytes), bytes.size());
}

void PeerLink::put_row(const std::string& key, const std::string& value) {
  if (client_) return client_->put_row(key, value);
  nats::Client::keep(rows_, key, value);
}

PeerLink::Report PeerLink::report() const {
  Report report = report_;
  report.dropped = home_->dropped;
  return report;
}

}  // namespace kvist::gateway

#include "kvist/dashboard/service/fleet_poller.h"

#include <fmt/format.h>

#include <utility>

#include "kvist/base/json.h"
#include "kvist/base/json_writer.h"
#include "kvist/routing/decision_json.h"

namespace kvist::dashboard {
namespace {

constexpr Duration kTimeout = std::chrono::seconds(3);
constexpr std::uint64_t kMostBytes = 16ULL << 20;  // of an answer
constexpr std::size_t kMostMessageBytes = 512U << 10;
constexpr std::size_t kMostChanges = 16;

/// The message of an error in the API's form, otherwise the status.
std::string problem_of(const net::HttpResponse& answer) {
  JsonDocument document;
  if (const auto root = document.parse_object(answer.body)) {
    const auto error = root->peek("error");
    const auto object = error ? error->if_object() : std::nullopt;
    const auto message = object ? object->peek("message") : std::nullopt;
    if (const auto text = message ? message->if_string() : std::nullopt) return std::string(*text);
  }
  return fmt::format("status {}", answer.status);
}

Result<std::string> body_of(Result<net::HttpResponse> answer) {
  if (!answer) return std::unexpected(std::move(answer).error());
  if (answer->status != 200) return fail(ErrorCode::kUnavailable, problem_of(*answer));
  return std::move(answer->body);
}

std::string percent_encoded(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    const bool is_plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    encoded += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return encoded;
}

std::string decisions_problem(std::string_view why) {
  JsonWriter json;
  json.begin_object().field("type", "decisions").field("total", 0).field("problem", why).key("decisions");
  json.begin_array().end_array().end_object();
  return json.take();
}

}  // namespace

Result<std::string> decisions_message(std::string_view answer, double unix_s) {
  JsonDocument document({.name = "decisions", .most_bytes = kMostBytes});
  KVIST_TRY(const JsonObject root, document.parse_object(answer));
  KVIST_TRY(const double now_s, root.require_double("now_s", -1e12, 1e12));
  KVIST_TRY(const std::uint64_t total, root.require_unsigned("total", 0, ~std::uint64_t{0}));
  KVIST_TRY(const routing::DecisionFile file, routing::read_decisions(answer));
  std::string list;
  for (const routing::DecisionRecord& record : file.decisions) {
    JsonWriter one;
    routing::write_decision(one, record, file.worker_names);
    std::string text = one.take();
    const double ago_s = now_s - to_seconds(record.at.time_since_epoch());
    text.insert(1, fmt::format("\"t_ms\":{},", static_cast<std::int64_t>((unix_s - ago_s) * 1e3)));
    if (list.size() + text.size() > kMostMessageBytes) break;
    list.append(list.empty() ? "" : ",").append(text);
  }
  return fmt::format(R"({{"type":"decisions","total":{},"problem":"","decisions":[{}]}})", total, list);
}

FleetPoller::FleetPoller(net::EventLoop& loop, Handler handler)
    : loop_(loop),
      client_(loop, {.max_idle_per_host = 4, .max_buffered_body_bytes = kMostBytes}),
      handler_(std::move(handler)) {}

void FleetPoller::set_gateway(std::string url, net::ServerSettings settings) {
  calls_.clear();
  decisions_.reset();
  awaited_ = 0;
  url_ = std::move(url);
  if (!url_.empty()) client_.set_server(url_, std::move(settings));
}

std::unique_ptr<net::HttpCall> FleetPoller::get(const std::string& url, const std::string& path,
                                                std::function<void(Result<net::HttpResponse>)> done) {
  return client_.fetch(url, {.method = "GET", .target = path, .headers = {}, .body = {}}, kTimeout, std::move(done));
}

void FleetPoller::poll() {
  if (url_.empty() || awaited_ > 0) return;
  calls_.clear();
  reading_ = {};
  link_ = {.url = url_};
  awaited_ = 2;
  calls_.push_back(
      get(url_, "/admin/status", [this](Result<net::HttpResponse> answer) { on_status(std::move(answer)); }));
  calls_.push_back(get(url_, "/metrics", [this](Result<net::HttpResponse> answer) { on_counters(std::move(answer)); }));
}

void FleetPoller::on_status(Result<net::HttpResponse> answer) {
  const auto body = body_of(std::move(answer));
  auto status = body ? read_gateway_status(*body) : Result<GatewayStatus>(std::unexpected(body.error()));
  if (status) {
    link_.reached = true;
    reading_.status = *std::move(status);
    model_ = reading_.status->several_models ? reading_.status->model : std::string();
    ask_workers();
  } else {
    link_.problem = status.error().message;
  }
  ended();
}

void FleetPoller::on_counters(Result<net::HttpResponse> answer) {
  if (const auto body = body_of(std::move(answer))) {
    if (auto counters = read_gateway_counters(*body)) reading_.counters = *std::move(counters);
  }
  ended();
}

void FleetPoller::ask_workers() {
  for (const WorkerStatus& worker : reading_.status->workers) {
    if (worker.url.empty()) continue;
    ++awaited_;
    calls_.push_back(get(worker.url, "/metrics", [this, name = worker.name](Result<net::HttpResponse> answer) {
      on_page(name, std::move(answer));
    }));
  }
}

void FleetPoller::on_page(const std::string& worker, Result<net::HttpResponse> answer) {
  if (const auto body = body_of(std::move(answer))) {
    if (auto page = read_worker_page(*body)) reading_.pages.insert_or_assign(worker, *std::move(page));
  }
  ended();
}

void FleetPoller::ended() {
  if (--awaited_ == 0) handler_(std::exchange(reading_, {}), link_);
}

void FleetPoller::ask_decisions(std::size_t limit, double unix_s, std::function<void(std::string)> done) {
  if (decisions_) return;
  if (url_.empty()) return done(decisions_problem("no gateway is known"));
  std::string path = fmt::format("/admin/decisions?limit={}", limit);
  if (!model_.empty()) path += "&model=" + percent_encoded(model_);
  decisions_ = get(url_, path, [this, unix_s, done = std::move(done)](Result<net::HttpResponse> answer) {
    const auto body = body_of(std::move(answer));
    auto message = body ? decisions_message(*body, unix_s) : Result<std::string>(std::unexpected(body.error()));
    done(message ? *std::move(message) : decisions_problem(message.error().message));
    // From the loop, because this is one of its handlers.
    loop_.post([call = std::shared_ptr<net::HttpCall>(std::move(decisions_))] {});
  });
}

void FleetPoller::set_mode(spec::RoutingMode mode, std::function<void(Result<void>)> done) {
  if (url_.empty()) return done(fail(ErrorCode::kUnsupported, "no gateway is known"));
  if (changes_.size() >= kMostChanges) changes_.erase(changes_.begin());
  JsonWriter json;
  json.begin_object();
  if (!model_.empty()) json.field("model", model_);
  json.field("mode", spec::to_string(mode)).end_object();
  net::HttpRequest request{.method = "PUT", .target = "/admin/router_mode", .headers = {}, .body = json.take()};
  request.headers.add("Content-Type", "application/json");
  changes_.push_back(
      client_.fetch(url_, std::move(request), kTimeout, [done = std::move(done)](Result<net::HttpResponse> answer) {
        const auto body = body_of(std::move(answer));
        done(body ? Result<void>{} : std::unexpected(body.error()));
      }));
}

}  // namespace kvist::dashboard

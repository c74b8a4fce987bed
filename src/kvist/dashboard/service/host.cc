#include "kvist/dashboard/service/host.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "kvist/base/json_writer.h"
#include "kvist/dashboard/service/assets.h"
#include "kvist/dashboard/service/remote_exchange.h"
#include "kvist/net/admin_listener.h"
#include "kvist/net/sha256.h"
#include "kvist/net/time_of_day.h"

namespace kvist::dashboard {
namespace {

constexpr std::string_view kProtocol = "kvist-dashboard-1";
constexpr std::string_view kRoot = "/dashboard/";
constexpr std::string_view kRunPath = "/dashboard/api/run/";
/// After the second in which load and fleet were asked: what answers in time is told with it.
constexpr Duration kTellAfter = std::chrono::milliseconds(300);
constexpr std::size_t kListedDecisions = 50;
/// Of an answer, below what a viewer may leave unread: beyond that its connection would be broken off.
constexpr std::size_t kMostAnswerBytes = 7U << 20;

net::HttpResponse text_answer(int status, std::string text) {
  net::HttpResponse answer{.status = status, .headers = {}, .body = std::move(text)};
  answer.headers.add("Content-Type", "text/plain; charset=utf-8");
  add_page_fields(answer.headers);
  return answer;
}

net::HttpResponse json_answer(std::string text) {
  net::HttpResponse answer{.status = 200, .headers = {}, .body = std::move(text)};
  answer.headers.add("Content-Type", "application/json");
  add_page_fields(answer.headers);
  return answer;
}

Facts with_token(Facts facts, bool token_required, bool has_runs) {
  facts.abilities.token_required = token_required;
  facts.has_runs = has_runs;
  return facts;
}

std::string quoted_number(std::string_view key, double value) {
  JsonWriter json;
  json.begin_object().field(key, value).end_object();
  return json.take();
}

}  // namespace

Host::Host(net::EventLoop& loop, DashboardOptions options, RunLibrary library, std::string token)
    : loop_(loop),
      options_(std::move(options)),
      token_(std::move(token)),
      board_(with_token(options_.facts, !token_.empty(), !library.is_empty()), net::random_text(12), options_.baseline,
             net::now(), net::unix_seconds()),
      poller_(loop, [this](FleetReading reading,
                           GatewayLink link) { board_.on_fleet(std::move(reading), std::move(link), net::now()); }),
      load_(loop, options_.load, options_.plan),
      timer_(loop) {
  if (!library.is_empty()) runs_ = std::make_unique<RunQueries>(std::move(library));
  if (!options_.gateway.empty()) poller_.set_gateway(options_.gateway, options_.gateway_settings);
}

Host::~Host() {
  tell();  // what came since the last beat: a sweep's last level
  alive_.reset();
  runs_.reset();
  for (auto& [number, viewer] : viewers_) viewer.socket->close(net::WebSocketClose::kGoingAway, "the server ends");
  viewers_.clear();  // before the listener, which would break them off
}

Result<void> Host::listen() {
  net::HttpServerOptions http = net::admin_listener(options_.host, options_.port);
  http.tls = options_.tls;
  // A name of somebody else's that leads here has no certificate.
  if (http.tls) http.browsers->own_names_only = false;
  KVIST_TRY(server_, net::HttpServer::listen(loop_, std::move(http), [this](net::HttpRequest request, auto exchange) {
              handle(std::move(request), exchange);
            }));
  // Of stored runs too, where nothing changes: a page takes a server that is silent for one that is gone.
  ask();
  beat_later();
  return {};
}

void Host::set_gateway(const std::string& admin_url, const net::ServerSettings& settings) {
  poller_.set_gateway(admin_url, settings);
}

void Host::set_sweep(SweepProgress progress) {
  board_.on_sweep(std::move(progress));
}

// Requests.

void Host::handle(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) {
  const std::string_view path = request.path();
  if (path != "/" && path != "/dashboard" && !path.starts_with(kRoot)) return pass_on(std::move(request), exchange);
  if (request.method != "GET" && request.method != "HEAD") {
    net::HttpResponse answer = text_answer(405, "only GET\n");
    answer.headers.add("Allow", "GET, HEAD");
    return exchange->respond(std::move(answer));
  }
  if (path == "/" || path == "/dashboard") {
    net::HttpResponse answer = text_answer(302, "");
    answer.headers.add("Location", std::string(kRoot));
    return exchange->respond(std::move(answer));
  }
  if (path == "/dashboard/ws") return open_viewer(request, exchange);
  if (path == "/dashboard/api/state") return exchange->respond(json_answer(state_json()));
  if (path.starts_with(kRunPath)) return download(path.substr(kRunPath.size()), exchange);
  exchange->respond(asset_answer(assets(), path.substr(kRoot.size()), request));
}

bool Host::is_token(std::string_view text) const {
  return token_.empty() || net::equal_in_constant_time(net::sha256(text), net::sha256(token_));
}

bool Host::has_token(const net::HttpRequest& request) const {
  std::string_view field = request.headers.find("Authorization").value_or("");
  constexpr std::string_view kScheme = "Bearer ";
  if (field.starts_with(kScheme)) field.remove_prefix(kScheme.size());
  return is_token(field);
}

void Host::pass_on(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) {
  if (!options_.passes_control || !options_.load) return exchange->respond(text_answer(404, "see /dashboard/\n"));
  const bool changes = request.method != "GET" && request.method != "HEAD";
  if (changes && !has_token(request)) {
    return exchange->respond(
        text_answer(401, "expected Authorization: Bearer, with the token that was printed at the start\n"));
  }
  const auto remote = std::make_shared<RemoteExchange>(loop_, exchange);
  const auto asked = std::make_shared<net::HttpRequest>(std::move(request));
  if (!options_.load->post(
          [asked, remote](loadgen::ControlledLoad& load) { load.handle(std::move(*asked), remote); })) {
    exchange->respond(text_answer(503, "the load generator ends\n"));
  }
}

void Host::download(std::string_view path, const std::shared_ptr<net::HttpExchange>& exchange) {
  const std::size_t slash = path.find('/');
  if (!runs_ || slash == std::string_view::npos) return exchange->respond(text_answer(404, "there is no such run\n"));
  const std::string run(path.substr(0, slash));
  const std::string name(path.substr(slash + 1));
  const auto remote = std::make_shared<RemoteExchange>(loop_, exchange);
  const bool asked = runs_->ask([remote, run, name](RunLibrary& library) {
    auto file = library.file(run, name);
    if (!file) return remote->respond(text_answer(404, file.error().message + "\n"));
    net::HttpResponse answer{.status = 200, .headers = {}, .body = std::move(file->body)};
    answer.headers.add("Content-Type", file->content_type);
    answer.headers.add("Content-Disposition", fmt::format("attachment; filename=\"{}\"", name));
    add_page_fields(answer.headers);
    remote->respond(std::move(answer));
  });
  if (!asked) exchange->respond(text_answer(503, "too many questions wait\n"));
}

std::string Host::state_json() const {
  return fmt::format(R"({{"hello":{},"sample":{},"baseline":{}}})", board_.hello_json(net::now()),
                     board_.sample().empty() ? "null" : board_.sample(), board_.baseline_message());
}

// Viewers.

void Host::open_viewer(const net::HttpRequest& request, const std::shared_ptr<net::HttpExchange>& exchange) {
  const std::uint64_t number = ++last_viewer_;
  net::WebSocketOptions options{.subprotocol = std::string(kProtocol)};
  auto socket = net::WebSocket::accept(loop_, request, exchange, std::move(options),
                                       {.on_text = [this, number](std::string_view text) { on_text(number, text); },
                                        .on_closed = [this, number] { viewers_.erase(number); }});
  if (!socket) return;
  const bool full = viewers_.size() >= kMostViewers;
  Viewer& viewer =
      viewers_.emplace(number, Viewer{.number = number, .socket = std::move(socket), .budget = {}}).first->second;
  if (full) return viewer.socket->close(net::WebSocketClose::kTryLater, "too many viewers");
  greet(viewer);
}

void Host::greet(Viewer& viewer) {
  viewer.socket->send_text(board_.hello_json(net::now()));
  viewer.socket->send_text(board_.baseline_message());
  viewer.socket->send_text(board_.events().json_after(0));
  viewer.event = board_.events().last();
  if (board_.sweep()) viewer.socket->send_text(board_.sweep_message(net::now()));
  viewer.sweep = board_.sweep_version();
  if (!board_.sample().empty()) viewer.socket->send_text(board_.sample());
}

void Host::on_text(std::uint64_t number, std::string_view text) {
  const auto found = viewers_.find(number);
  if (found == viewers_.end()) return;
  if (!found->second.budget.take(net::now())) {
    return found->second.socket->close(net::WebSocketClose::kPolicy, "more than 20 commands in a second");
  }
  const auto command = read_command(text);
  if (!command) return found->second.socket->send_text(refusal_json(command.error().id, command.error().why));
  if (command->changes() && !is_token(command->token)) {
    return found->second.socket->send_text(refusal_json(
        command->id, "token: missing or wrong; it is in the address that was printed at the start, behind #token="));
  }
  carry_out(number, *command);
}

void Host::answer(std::uint64_t number, std::uint64_t id, const Result<std::string>& result) {
  const auto found = viewers_.find(number);
  if (found == viewers_.end()) return;
  if (result && result->size() > kMostAnswerBytes) {
    return found->second.socket->send_text(
        refusal_json(id, fmt::format("the answer is too long for a message: {} MiB", result->size() >> 20)));
  }
  found->second.socket->send_text(result ? reply_json(id, *result) : refusal_json(id, result.error().message));
}

LoadControl::Done Host::confirm(std::uint64_t number, std::uint64_t id, std::string result) {
  return [this, alive = std::weak_ptr(alive_), number, id, result = std::move(result)](Result<void> done) {
    if (!alive.lock()) return;
    answer(number, id, done ? Result<std::string>(result) : std::unexpected(std::move(done).error()));
  };
}

void Host::ask_runs(std::uint64_t number, std::uint64_t id, std::function<Result<std::string>(RunLibrary&)> question) {
  if (!runs_) return answer(number, id, fail(ErrorCode::kNotFound, "there are no stored runs here"));
  const bool asked = runs_->ask(
      [this, alive = std::weak_ptr(alive_), number, id, question = std::move(question)](RunLibrary& library) {
        const auto result = std::make_shared<Result<std::string>>(question(library));
        loop_.post([this, alive, number, id, result] {
          if (alive.lock()) answer(number, id, *result);
        });
      });
  if (!asked) answer(number, id, fail(ErrorCode::kResourceExhausted, "too many questions wait; try again"));
}

void Host::subscribe(Viewer& viewer, const Subscribe& order) {
  if (order.topic == Topic::kConversations) {
    viewer.wants_conversations = order.on;
    viewer.conversations = 0;
  } else {
    viewer.wants_decisions = order.on;
    viewer.decisions = 0;
  }
}

void Host::carry_out(std::uint64_t number, const Command& command) {
  const std::uint64_t id = command.id;
  struct Carry {
    Host& host;
    std::uint64_t number;
    std::uint64_t id;
    void operator()(const StartLoad& order) const { host.load_.start(order, host.confirm(number, id, "{}")); }
    void operator()(const StopLoad& order) const {
      host.load_.stop(order.drain, [&host = host, told = host.confirm(number, id, "{}")](Result<void> done) {
        if (done) host.board_.on_stop(net::now());
        told(std::move(done));
      });
    }
    void operator()(const SetConcurrency& order) const {
      host.load_.set_concurrency(order.concurrency,
                                 host.confirm(number, id, quoted_number("concurrency", order.concurrency)));
    }
    void operator()(const SetRate& order) const {
      host.load_.set_rate(order.rate_per_s, host.confirm(number, id, quoted_number("rate_per_s", order.rate_per_s)));
    }
    void operator()(const SetMode& order) const {
      host.poller_.set_mode(order.mode,
                            host.confirm(number, id, fmt::format(R"({{"mode":"{}"}})", spec::to_string(order.mode))));
    }
    void operator()(const AskHistory& ask) const {
      host.answer(number, id, host.board_.history_json(ask.of_workers, ask.window_s, ask.points));
    }
    void operator()(const Subscribe& order) const {
      Viewer& viewer = host.viewers_.at(number);
      host.subscribe(viewer, order);
      host.answer(number, id, std::string("{}"));
      const auto found = host.viewers_.find(number);
      if (found != host.viewers_.end() && order.on) host.tell_topics(found->second);
    }
    void operator()(const AskConversation& ask) const {
      const UnixMs unix_ms = [this](TimePoint at) { return host.board_.unix_ms(at); };
      auto found = host.board_.conversations().json(ask.conversation, net::now(), unix_ms);
      host.answer(number, id,
                  found ? Result<std::string>(*std::move(found))
                        : fail(ErrorCode::kNotFound,
                               "conversation: there is none of that id, or it was given up for newer ones"));
    }
    void operator()(const AskRuns&) const {
      if (!host.runs_) return host.answer(number, id, std::string(R"({"runs":[],"problems":[]})"));
      host.ask_runs(number, id, [](RunLibrary& library) { return library.runs_json(); });
    }
    void operator()(const AskRun& ask) const {
      host.ask_runs(number, id, [run = ask.run](RunLibrary& library) { return library.run_json(run); });
    }
    void operator()(const AskLevel& ask) const {
      host.ask_runs(number, id, [ask](RunLibrary& library) { return library.level_json(ask.run, ask.level); });
    }
    void operator()(const AskCompare& ask) const {
      host.ask_runs(number, id,
                    [ask](RunLibrary& library) { return library.compare_json(ask.baseline, ask.candidate); });
    }
  };
  std::visit(Carry{.host = *this, .number = number, .id = id}, command.what);
}

// The beat.

/// At the next whole second of the day.
void Host::beat_later() {
  const TimePoint now = net::now();
  const std::int64_t into_second = board_.unix_ms(now) % 1'000;
  timer_.arm(now + std::chrono::milliseconds(1'000 - into_second), [this] {
    ask();
    timer_.arm(net::now() + kTellAfter, [this] {
      tell();
      beat_later();
    });
  });
}

void Host::ask() {
  load_.poll(
      [this](const LoadState& state, const workload::LoadBatch& batch) { board_.on_load(state, batch, net::now()); });
  poller_.poll();
  bool wanted = false;
  for (const auto& [number, viewer] : viewers_) wanted = wanted || viewer.wants_decisions;
  if (wanted) {
    poller_.ask_decisions(kListedDecisions, net::unix_seconds(),
                          [this](const std::string& message) { on_decisions(message); });
  }
}

void Host::on_decisions(const std::string& message) {
  if (message == decisions_) return;
  decisions_ = message;
  ++decisions_version_;
}

void Host::tell() {
  board_.on_plan(load_.plan().concurrency, load_.plan().rate_per_s);
  board_.tick(net::now());
  std::vector<std::uint64_t> numbers;  // a viewer may be dropped on the way
  for (const auto& [number, viewer] : viewers_) numbers.push_back(number);
  for (const std::uint64_t number : numbers) {
    const auto found = viewers_.find(number);
    if (found != viewers_.end()) tell(found->second);
  }
}

void Host::tell(Viewer& viewer) {
  if (viewer.reads_slowly()) return;
  if (board_.events().has_after(viewer.event)) {
    viewer.socket->send_text(board_.events().json_after(viewer.event));
    viewer.event = board_.events().last();
  }
  if (board_.sweep() && viewer.sweep != board_.sweep_version()) {
    viewer.socket->send_text(board_.sweep_message(net::now()));
    viewer.sweep = board_.sweep_version();
  }
  viewer.socket->send_text(board_.sample());
  tell_topics(viewer);
}

void Host::tell_topics(Viewer& viewer) {
  const std::uint64_t conversations = board_.conversations().version() + 1;
  if (viewer.wants_conversations && viewer.conversations != conversations) {
    viewer.conversations = conversations;
    viewer.socket->send_text(
        board_.conversations().list_json(net::now(), [this](TimePoint at) { return board_.unix_ms(at); }));
  }
  if (viewer.wants_decisions && decisions_version_ > 0 && viewer.decisions != decisions_version_) {
    viewer.decisions = decisions_version_;
    viewer.socket->send_text(decisions_);
  }
}

}  // namespace kvist::dashboard

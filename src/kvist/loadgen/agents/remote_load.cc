#include "kvist/loadgen/agents/remote_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "kvist/base/json_writer.h"
#include "kvist/loadgen/base_url.h"
#include "kvist/loadgen/control_api.h"
#include "kvist/loadgen/json_answers.h"
#include "kvist/loadgen/load_settings.h"
#include "kvist/net/admin_listener.h"
#include "kvist/net/bearer_key.h"
#include "kvist/net/tls.h"
#include "kvist/spec/agents_spec.h"
#include "kvist/telemetry/build_info.h"
#include "kvist/telemetry/log.h"
#include "kvist/telemetry/metrics.h"

namespace kvist::loadgen {
namespace {

constexpr std::string_view kCoordinatorLog = "agents";
/// A page of samples ends above SampleOutbox::kPageBytes, with one sample.
constexpr std::size_t kMostAnswerBytes = std::size_t{64} << 20;

Result<std::string> read_part(const OrderedFile& file, const FilePart& part) {
  std::ifstream in(file.path, std::ios::binary);
  std::string bytes(part.bytes, '\0');
  in.seekg(static_cast<std::streamoff>(part.offset));
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (static_cast<std::uint64_t>(in.gcount()) == part.bytes) return bytes;
  return fail(ErrorCode::kInternal, fmt::format("{}: has changed, or cannot be read any more", file.path));
}

/// A call to an agent under way.
struct Exchange {
  std::unique_ptr<net::HttpCall> call;
  AgentAnswer answer;
  bool too_long = false;
};

class RemoteLoadImpl final : public RemoteLoad {
 public:
  RemoteLoadImpl(net::EventLoop& loop, RemoteLoadOptions options, const std::vector<std::string>& names)
      : loop_(loop),
        options_(std::move(options)),
        coordination_(names, options_.load, options_.workload, options_.level),
        client_(loop, client_options()),
        timer_(loop),
        exchanges_(names.size()),
        api_(actions()) {}

  Result<void> listen() {
    if (!options_.http) return {};
    net::HttpServerOptions http = net::admin_listener(options_.http->host, options_.http->port);
    http.tls = options_.tls;
    KVIST_TRY(server_, net::HttpServer::listen(loop_, http, [this](net::HttpRequest request, auto exchange) {
                api_.handle(std::move(request), exchange);
              }));
    return {};
  }

  void open(std::function<void(Result<void>)> ready) override {
    ready_ = std::move(ready);
    step();
  }
  void handle(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) override {
    api_.handle(std::move(request), exchange);
  }
  [[nodiscard]] LoadView view() const override {
    LoadView view{.state = "idle", .open = is_open_loop(options_.workload), .totals = coordination_.totals()};
    if (coordination_.state() != Coordination::State::kRunning) return view;
    view.state = stopping_ ? "draining" : "running";
    const workload::LoadChange settings = coordination_.settings(net::now());
    view.concurrency = settings.concurrency;
    if (const double rate = start_rate(options_.workload, settings); rate > 0) view.rate_per_s = rate;
    view.seed = options_.seed;
    view.started = begins_at_;
    view.in_flight = in_flight();
    return view;
  }
  [[nodiscard]] workload::LoadBatch take_batch() override { return coordination_.take_batch(); }
  [[nodiscard]] Result<void> change(const workload::LoadChange& change) override {
    KVIST_TRY_VOID(coordination_.change(change, net::now()));
    step();
    return {};
  }
  [[nodiscard]] const Coordination& coordination() const override { return coordination_; }

  [[nodiscard]] std::uint16_t port() const override { return server_ ? server_->port() : 0; }
  [[nodiscard]] Result<void> prepare(std::uint64_t seed) override {
    if (seed == options_.seed) return {};
    return fail(ErrorCode::kUnsupported, fmt::format("the agents were told another seed: {}", options_.seed));
  }
  [[nodiscard]] Result<void> start(std::uint32_t concurrency, std::uint64_t seed) override {
    KVIST_TRY_VOID(prepare(seed));
    if (coordination_.state() != Coordination::State::kReady || concurrency != options_.level) {
      return fail(ErrorCode::kInvalidArgument, "a load on agents is started once, as it was ordered");
    }
    begins_at_ = coordination_.start(options_.duration, net::now());
    telemetry::log_info(kCoordinatorLog, fmt::format("start in {:.3f} s on {} threads of {} agents",
                                                     to_seconds(*begins_at_ - net::now()), coordination_.parts(),
                                                     coordination_.agents().size()));
    step();
    return {};
  }
  [[nodiscard]] Result<void> start_with(std::uint32_t /*concurrency*/, std::uint64_t /*seed*/,
                                        const workload::LoadChange& /*settings*/) override {
    return fail(ErrorCode::kUnsupported, "a load on agents is started by the command alone");
  }
  [[nodiscard]] std::optional<TimePoint> begins_at() const override { return begins_at_; }

  void stop(bool drain, std::function<void()> stopped) override {
    stopping_ = true;
    on_stopped_.push_back(std::move(stopped));
    coordination_.stop(drain);
    step();
  }
  void on_ended(std::function<void()> ended) override { on_ended_ = std::move(ended); }
  [[nodiscard]] bool is_exhausted() const override { return coordination_.is_exhausted(); }
  [[nodiscard]] std::uint32_t in_flight() const override { return coordination_.progress(net::now()).window.in_flight; }
  [[nodiscard]] Progress progress(Duration /*within*/) const override {
    Progress progress = coordination_.progress(net::now());
    progress.samples_refused = coordination_.samples_refused();
    return progress;
  }
  [[nodiscard]] ClientLoad client_load() const override { return coordination_.client_load(); }
  [[nodiscard]] workload::HeldBack held_back() const override { return coordination_.held_back(); }
  [[nodiscard]] const std::vector<workload::AppliedChange>& changes() const override { return coordination_.changes(); }
  [[nodiscard]] std::vector<workload::TurnSample> take_samples() override { return coordination_.take_samples(); }

 private:
  [[nodiscard]] net::HttpClientOptions client_options() const {
    net::HttpClientOptions options;
    for (const std::string& url : options_.agents) options.servers[url] = options_.server;
    options.max_buffered_body_bytes = kMostAnswerBytes;
    return options;
  }

  /// Makes the calls that are due, and tells who waits.
  void step() {
    coordination_.advance();
    std::vector<AgentDialogue>& agents = coordination_.agents();
    std::optional<TimePoint> due;
    for (std::size_t i = 0; i < agents.size(); ++i) {
      if (!exchanges_[i]) {
        if (std::optional<AgentCall> call = agents[i].next(net::now())) ask(i, *std::move(call));
      }
      const std::optional<TimePoint> next = agents[i].next_due();
      if (next && (!due || *next < *due)) due = next;
    }
    tell_losses();
    if (due) {
      timer_.arm(*due, [this] { step(); });
    } else {
      timer_.cancel();
    }
    tell();
  }

  void ask(std::size_t agent, AgentCall call) {
    net::HttpRequest request;
    request.method = std::move(call.method);
    request.target = std::move(call.target);
    request.headers.add("Content-Type", call.part ? "application/octet-stream" : "application/json");
    request.headers.add("X-Kvist-Request", "1");  // no browser: a file is no JSON (net::BrowserPolicy)
    request.body = std::move(call.body);
    if (call.part) {
      Result<std::string> part = read_part(options_.load.files[call.part->file], *call.part);
      if (!part) {
        loop_.post([this, agent, error = part.error()] { answered(agent, std::unexpected(error)); });
        return;
      }
      request.body = *std::move(part);
    }
    exchanges_[agent] = std::make_unique<Exchange>();
    Exchange& exchange = *exchanges_[agent];
    net::CallHandlers handlers;
    handlers.on_head = [&exchange](int status, const net::Headers&) { exchange.answer.status = status; };
    handlers.on_body = [&exchange](std::string_view data, TimePoint) {
      exchange.too_long = exchange.too_long || exchange.answer.body.size() + data.size() > kMostAnswerBytes;
      if (!exchange.too_long) exchange.answer.body += data;
    };
    handlers.on_end = [this, agent, &exchange](const net::CallTimes& times) {
      // From before the first byte was sent to when the first byte was read: the agent has looked at its clock between.
      exchange.answer.sent = times.started;
      exchange.answer.received = times.first_byte;
      if (exchange.too_long) {
        return answered(agent, fail(ErrorCode::kTooLarge, "its answer is too long"));
      }
      answered(agent, std::move(exchange.answer));
    };
    handlers.on_error = [this, agent](const Error& error, bool) { answered(agent, std::unexpected(error)); };
    exchange.call = client_.start(options_.agents[agent], std::move(request), call.timeout, std::move(handlers));
  }

  void answered(std::size_t agent, Result<AgentAnswer> answer) {
    // One of its handlers is running now.
    loop_.post([dead = std::shared_ptr<Exchange>(std::move(exchanges_[agent]))] {});
    coordination_.agents()[agent].on_answer(answer, net::now());
    step();
  }

  void tell_losses() {
    lost_.resize(coordination_.agents().size());
    for (std::size_t i = 0; i < lost_.size(); ++i) {
      const AgentDialogue& agent = coordination_.agents()[i];
      if (agent.phase() != AgentPhase::kLost || lost_[i]) continue;
      lost_[i] = true;
      telemetry::log_warning(kCoordinatorLog,
                             fmt::format("agent {} is lost: {}", agent.name(), agent.error()->message));
    }
  }

  void tell() {
    const Coordination::State state = coordination_.state();
    const bool told_all =
        std::ranges::all_of(coordination_.agents(), [](const AgentDialogue& agent) { return agent.is_over(); });
    if (ready_ && state == Coordination::State::kReady)
      return loop_.post([done = std::exchange(ready_, nullptr)] { done({}); });
    if (ready_ && state == Coordination::State::kFailed && told_all) {
      loop_.post(
          [done = std::exchange(ready_, nullptr), error = *coordination_.error()] { done(std::unexpected(error)); });
    }
    if (!told_all) return;
    const bool ended = !std::exchange(over_, true) && state == Coordination::State::kDone;
    if (ended && on_ended_) loop_.post(on_ended_);
    for (std::function<void()>& stopped : std::exchange(on_stopped_, {})) {
      if (stopped) loop_.post(std::move(stopped));
    }
  }

  [[nodiscard]] ControlActions actions() {
    return {.start = [this](const StartCommand& command) { return start_with(command.concurrency, {}, {}); },
            .change = [this](const workload::LoadChange& wanted) { return change(wanted); },
            .stop = [this](bool drain, std::function<void()> stopped) { stop(drain, std::move(stopped)); },
            .status = [this] { return status(); },
            .metrics = [this] { return metrics_page(); }};
  }

  [[nodiscard]] std::string_view state_name() const {
    switch (coordination_.state()) {
      case Coordination::State::kPreparing:
      case Coordination::State::kReady:
        return "preparing";
      case Coordination::State::kRunning:
        return "running";
      case Coordination::State::kDone:
      case Coordination::State::kFailed:
        return "ended";
    }
    return "ended";
  }

  [[nodiscard]] std::string status() const {
    const Progress all = progress({});
    const workload::LoadChange settings = coordination_.settings(net::now());
    JsonWriter json;
    json.begin_object().field("state", state_name()).field("seed", options_.seed);
    if (settings.concurrency) json.field("concurrency", *settings.concurrency);
    if (settings.rate) json.field("rate_per_s", *settings.rate);
    json.field("in_flight", all.window.in_flight).field("succeeded", all.succeeded).field("failed", all.failed);
    json.field("turns_per_s", all.window.turns_per_s).field("output_tokens_per_s", all.window.output_tokens_per_s);
    json.field("changes", changes().size()).key("agents").begin_array();
    for (const AgentDialogue& agent : coordination_.agents()) {
      json.begin_object().field("agent", agent.name()).field("state", to_string(agent.report().state));
      json.field("lost", agent.phase() == AgentPhase::kLost).field("threads", agent.report().threads);
      json.field("in_flight", agent.report().progress.window.in_flight);
      json.field("succeeded", agent.report().progress.succeeded).field("samples", agent.samples_received());
      json.end_object();
    }
    json.end_array().end_object();
    return json.take();
  }

  [[nodiscard]] std::string metrics_page() const {
    return telemetry::expose([this](telemetry::MetricsPage& page) {
      const Progress all = progress({});
      const char* const requests_help = "Finished turns by outcome";
      page.counter("loadgen_requests_total", requests_help, static_cast<double>(all.succeeded),
                   {{"outcome", "succeeded"}});
      page.counter("loadgen_requests_total", requests_help, static_cast<double>(all.failed), {{"outcome", "failed"}});
      page.gauge("loadgen_in_flight", "Turns in flight", all.window.in_flight);
      for (const AgentDialogue& agent : coordination_.agents()) {
        const double lost = agent.phase() == AgentPhase::kLost ? 1 : 0;
        page.gauge("loadgen_agent_lost", "Whether the agent was lost in the load", lost, {{"agent", agent.name()}});
      }
      telemetry::write_build_info(page, "loadgen");
    });
  }

  net::EventLoop& loop_;
  const RemoteLoadOptions options_;
  Coordination coordination_;
  net::HttpClient client_;
  net::Timer timer_;
  std::vector<std::unique_ptr<Exchange>> exchanges_;  // one per agent; null: none is under way
  std::vector<bool> lost_;                            // that was logged
  std::function<void(Result<void>)> ready_;
  std::optional<TimePoint> begins_at_;
  std::vector<std::function<void()>> on_stopped_;
  std::function<void()> on_ended_;
  bool stopping_ = false;
  bool over_ = false;  // every agent has ended or is lost, and that was told
  ControlApi api_;
  std::unique_ptr<net::HttpServer> server_;  // last, so that it is destroyed first
};

}  // namespace

Result<std::vector<std::string>> parse_agents(const std::string& text) {
  std::vector<std::string> addresses;
  std::string_view rest = text;
  while (!rest.empty()) {
    addresses.emplace_back(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(rest.size(), addresses.back().size() + 1));
  }
  return agent_urls(addresses);
}

Result<std::vector<std::string>> agent_urls(const std::vector<std::string>& addresses) {
  std::vector<std::string> urls;
  for (const std::string& address : addresses) {
    const bool has_scheme = address.find("://") != std::string::npos;
    KVIST_TRY(std::string url, base_url(has_scheme ? address : "http://" + address, "agent"));
    if (std::ranges::find(urls, url) != urls.end()) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("agent \"{}\": is named twice", url));
    }
    urls.push_back(std::move(url));
  }
  if (!urls.empty() && urls.size() <= spec::kMaxAgents) return urls;
  return fail(ErrorCode::kInvalidArgument, fmt::format("{} agents; want 1 to {}", urls.size(), spec::kMaxAgents));
}

Result<net::ServerSettings> agent_settings(const std::vector<std::string>& urls, const std::string& key_file,
                                           const std::string& ca) {
  net::ServerSettings settings;
  if (!key_file.empty()) {
    KVIST_TRY(settings.bearer_key, net::read_bearer_key(key_file));
  }
  if (std::ranges::any_of(urls, [](const std::string& url) { return url.starts_with("https://"); })) {
    net::TlsClientOptions tls;
    tls.ca = ca;
    KVIST_TRY(settings.tls, net::TlsClient::load(std::move(tls)));
  }
  return settings;
}

Result<std::unique_ptr<RemoteLoad>> RemoteLoad::create(net::EventLoop& loop, RemoteLoadOptions options) {
  std::vector<std::string> names;
  for (const std::string& url : options.agents) names.push_back(url.substr(url.find("://") + 3));
  auto load = std::make_unique<RemoteLoadImpl>(loop, std::move(options), names);
  KVIST_TRY_VOID(load->listen());
  return load;
}

}  // namespace kvist::loadgen

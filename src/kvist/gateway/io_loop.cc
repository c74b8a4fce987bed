#include "kvist/gateway/io_loop.h"

#include <map>
#include <tuple>
#include <utility>

#include "kvist/gateway/dialect_door.h"
#include "kvist/gateway/proxy_headers.h"

namespace kvist::gateway {

struct IoLoop::Parts {
  struct OpenModel {
    OpenModel(net::EventLoop& loop, net::HttpClient& client, const Model& model)
        : channel(loop, model.routing), proxy(loop, model.proxy, client, channel, *model.reader, model.workers) {
      proxy.set_readings(model.readings);
    }

    RemoteChannel channel;
    Proxy proxy;
  };
  /// A request that the routing thread answers.
  struct Forwarded {
    std::shared_ptr<net::HttpExchange> exchange;
    KeyLease lease;
  };

  Parts(net::EventLoop& loop, const Options& options)
      : client(loop, options.client), door(options.reporter), dialects(loop, door), reporter(options.reporter) {}

  net::HttpClient client;
  ModelDoor door;
  DialectDoor dialects;
  std::map<ModelId, OpenModel> models;
  RequestReporter* reporter;  // null: no one is told of requests
  std::unique_ptr<net::HttpServer> server;
  SlotTable<Forwarded> forwarded;
};

/// Stands for one of this loop's exchanges on the routing thread. It takes one answer, in one piece. The exchange
/// itself never leaves its own thread.
class IoLoop::ForwardedExchange final : public net::HttpExchange {
 public:
  using Handle = SlotHandle<Parts::Forwarded>;

  ForwardedExchange(IoLoop& io, Handle handle) : io_(&io), handle_(handle) {}

  void respond(net::HttpResponse response) override {
    IoLoop* const io = std::exchange(io_, nullptr);
    if (io == nullptr) return;
    io->loop_.post([io, handle = handle_, answer = std::move(response)]() mutable {
      if (!io->parts_) return;
      const Parts::Forwarded forwarded = std::move(*io->parts_->forwarded.find(handle));
      io->parts_->forwarded.erase(handle);
      forwarded.exchange->respond(std::move(answer));
    });
  }
  // The gateway's own answers are not streamed, and too small for anybody to wait until they are sent.
  void begin_stream(int /*status*/, net::Headers /*headers*/) override {}
  void write(std::string_view /*data*/) override {}
  void end_stream() override {}
  void abort() override {}
  [[nodiscard]] std::size_t unsent_bytes() const override { return 0; }
  void on_drained(std::size_t /*low_water*/, std::function<void()> /*handler*/) override {}
  void on_client_gone(std::function<void()> /*handler*/) override {}
  [[nodiscard]] bool client_gone() const override { return false; }

 private:
  IoLoop* io_;
  Handle handle_;
};

Result<std::unique_ptr<IoLoop>> IoLoop::create(Options options, std::shared_ptr<RoutingHome> home, Front front) {
  net::HttpServerOptions server = options.server;
  std::unique_ptr<IoLoop> io(new IoLoop(std::move(options), std::move(home), std::move(front)));
  KVIST_TRY(io->parts_->server,
            net::HttpServer::listen(
                io->loop_, std::move(server),
                [raw = io.get()](net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) {
                  raw->handle(std::move(request), exchange);
                }));
  io->port_ = io->parts_->server->port();
  return io;
}

IoLoop::IoLoop(Options options, std::shared_ptr<RoutingHome> home, Front front)
    : home_(std::move(home)), front_(std::move(front)), parts_(std::make_unique<Parts>(loop_, options)) {}

IoLoop::~IoLoop() {
  if (!thread_.joinable()) return;
  loop_.post([this] {
    parts_.reset();
    loop_.stop();
  });
  thread_.join();
}

void IoLoop::start() {
  thread_ = std::thread([this] { loop_.run(); });
}

void IoLoop::on_loop(std::function<void()> work) {
  if (!thread_.joinable()) return work();
  loop_.post([this, work = std::move(work)] {
    if (parts_) work();
  });
}

void IoLoop::add_model(ModelId id, Model model) {
  on_loop([this, id, model = std::move(model)] {
    const auto added =
        parts_->models.emplace(std::piecewise_construct, std::tuple(id), std::tie(loop_, parts_->client, model));
    parts_->door.open(id, added.first->second.proxy);
  });
}

void IoLoop::remove_model(ModelId id, std::function<void()> then) {
  on_loop([this, id, then = std::move(then)] {
    parts_->door.close(id);
    parts_->models.erase(id);  // sends what its channel has still to tell
    home_->loop->post([home = home_, then] {
      if (home->open) then();
    });
  });
}

void IoLoop::set_names(std::shared_ptr<const ModelNames> names) {
  on_loop([this, names = std::move(names)] { parts_->door.set_names(names); });
}

void IoLoop::run(ModelId model, std::function<void(Proxy&)> work) {
  loop_.post([this, model, work = std::move(work)] {
    if (!parts_) return;
    const auto found = parts_->models.find(model);
    if (found == parts_->models.end()) return;
    found->second.channel.send();
    work(found->second.proxy);
  });
}

void IoLoop::run(std::function<void(const ModelDoor&, const net::HttpServer&)> work) {
  loop_.post([this, work = std::move(work)] {
    if (parts_) work(parts_->door, *parts_->server);
  });
}

void IoLoop::drain() {
  loop_.post([this] {
    if (parts_) parts_->server->drain();
  });
}

void IoLoop::when_sent(std::function<void()> done) {
  loop_.post([this, home = home_, call = std::move(done)] {
    if (!parts_) return;
    parts_->server->when_sent([home, call] {
      home->loop->post([home, call] {
        if (home->open) call();
      });
    });
  });
}

void IoLoop::handle(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) {
  if (front_.keys == nullptr || needs_no_key(request)) return handle_admitted(std::move(request), exchange, {});
  KeyGate::Verdict verdict = front_.keys->admit(request, net::now());
  if (verdict.refusal) {
    if (parts_->reporter != nullptr)
      parts_->reporter->refused(request, given_request_id(verdict.refusal->headers), verdict.refusal->status,
                                verdict.refused_key, net::now());
    return exchange->respond(in_form_of(request, *std::move(verdict.refusal)));
  }
  handle_admitted(std::move(request), exchange, std::move(verdict.lease));
}

void IoLoop::handle_admitted(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange,
                             KeyLease lease) {
  const std::string_view path = request.path();
  if (request.method == "POST" && path == "/v1/chat/completions")
    return parts_->door.handle(Api::kChat, std::move(request), exchange, std::move(lease));
  if (request.method == "POST" && path == "/v1/completions")
    return parts_->door.handle(Api::kCompletions, std::move(request), exchange, std::move(lease));
  if (const auto dialect = dialect_of(request))
    return parts_->dialects.handle(*dialect, std::move(request), exchange, std::move(lease));
  if (front_.is_passed_on(request)) return parts_->door.pass_on(std::move(request), exchange, std::move(lease));
  forward(std::move(request), exchange, std::move(lease));
}

void IoLoop::forward(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange, KeyLease lease) {
  const ForwardedExchange::Handle handle = parts_->forwarded.insert({exchange, std::move(lease)});
  home_->loop->post([this, home = home_, handle, asked = std::move(request)]() mutable {
    // If routing is gone, this loop has ended or is about to end.
    if (!home->open) return;
    front_.answer(std::move(asked), std::make_shared<ForwardedExchange>(*this, handle));
  });
}

}  // namespace kvist::gateway

#include "kvist/gateway/io_loop.h"

#include <utility>

#include "kvist/gateway/dialect_door.h"

namespace kvist::gateway {

struct IoLoop::Parts {
  Parts(net::EventLoop& loop, const Options& options, std::shared_ptr<RoutingThread> routing,
        const PromptReader& reader, const std::vector<spec::UpstreamSpec>& workers)
      : client(loop, options.client),
        channel(loop, std::move(routing)),
        proxy(loop, options.proxy, client, channel, reader, workers),
        reporter(options.proxy.reporter) {}

  net::HttpClient client;
  RemoteChannel channel;
  Proxy proxy;
  RequestReporter* reporter;  // null: no one is told of requests
  std::unique_ptr<net::HttpServer> server;
  /// A request that the routing thread answers.
  struct Forwarded {
    std::shared_ptr<net::HttpExchange> exchange;
    KeyLease lease;
  };
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

Result<std::unique_ptr<IoLoop>> IoLoop::create(Options options, std::shared_ptr<RoutingThread> routing,
                                               const PromptReader& reader,
                                               const std::vector<spec::UpstreamSpec>& workers, Front front) {
  net::HttpServerOptions server = options.server;
  std::unique_ptr<IoLoop> io(new IoLoop(std::move(options), std::move(routing), reader, workers, std::move(front)));
  KVIST_TRY(io->parts_->server,
            net::HttpServer::listen(
                io->loop_, std::move(server),
                [raw = io.get()](net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) {
                  raw->handle(std::move(request), exchange);
                }));
  io->port_ = io->parts_->server->port();
  return io;
}

IoLoop::IoLoop(Options options, std::shared_ptr<RoutingThread> routing, const PromptReader& reader,
               const std::vector<spec::UpstreamSpec>& workers, Front front)
    : routing_(routing),
      front_(std::move(front)),
      parts_(std::make_unique<Parts>(loop_, options, std::move(routing), reader, workers)) {}

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

void IoLoop::run(std::function<void(Proxy&)> work) {
  loop_.post([this, work = std::move(work)] {
    if (!parts_) return;
    parts_->channel.send();
    work(parts_->proxy);
  });
}

void IoLoop::drain() {
  loop_.post([this] {
    if (parts_) parts_->server->drain();
  });
}

void IoLoop::when_sent(std::function<void()> done) {
  loop_.post([this, routing = routing_, call = std::move(done)] {
    if (!parts_) return;
    parts_->server->when_sent([routing, call] {
      routing->loop->post([routing, call] {
        if (routing->channel != nullptr) call();
      });
    });
  });
}

void IoLoop::handle(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) {
  if (front_.keys == nullptr || needs_no_key(request)) return handle_admitted(std::move(request), exchange, {});
  KeyGate::Verdict verdict = front_.keys->admit(request, net::now());
  if (verdict.refusal) {
    if (parts_->reporter != nullptr) parts_->reporter->refused(request, verdict.refusal->status, net::now());
    return exchange->respond(in_form_of(request, *std::move(verdict.refusal)));
  }
  handle_admitted(std::move(request), exchange, std::move(verdict.lease));
}

void IoLoop::handle_admitted(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange,
                             KeyLease lease) {
  const std::string_view path = request.path();
  if (request.method == "POST" && path == "/v1/chat/completions")
    return parts_->proxy.handle(Api::kChat, std::move(request), exchange, std::move(lease));
  if (request.method == "POST" && path == "/v1/completions")
    return parts_->proxy.handle(Api::kCompletions, std::move(request), exchange, std::move(lease));
  if (const auto dialect = dialect_of(request))
    return handle_dialect(*dialect, loop_, parts_->proxy, std::move(request), exchange, std::move(lease));
  if (front_.is_passed_on(request)) return parts_->proxy.pass_on(std::move(request), exchange, std::move(lease));
  forward(std::move(request), exchange, std::move(lease));
}

void IoLoop::forward(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange, KeyLease lease) {
  const ForwardedExchange::Handle handle = parts_->forwarded.insert({exchange, std::move(lease)});
  routing_->loop->post([this, routing = routing_, handle, asked = std::move(request)]() mutable {
    // If routing is gone, this loop has ended or is about to end.
    if (routing->channel == nullptr) return;
    front_.answer(std::move(asked), std::make_shared<ForwardedExchange>(*this, handle));
  });
}

}  // namespace kvist::gateway

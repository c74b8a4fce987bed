#include "kvist/epp/grpc_server.h"

#include <fmt/format.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <unordered_set>
#include <utility>

#include "kvist/epp/ext_proc_codec.h"
#include "kvist/epp/grpc_stream.h"

namespace kvist::epp {
namespace {

constexpr std::string_view kProcess = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";
constexpr std::string_view kHealthCheck = "/grpc.health.v1.Health/Check";
/// How often the files of the certificate are looked at.
constexpr unsigned kCertificateSeconds = 5;

grpc_ssl_client_certificate_request_type request_type(spec::ClientCertificates clients) {
  switch (clients) {
    case spec::ClientCertificates::kNone:
      return GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
    case spec::ClientCertificates::kOptional:
      return GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY;
    case spec::ClientCertificates::kRequired:
      break;
  }
  return GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
}

std::shared_ptr<grpc::ServerCredentials> credentials(const spec::ServerTlsSpec& tls) {
  namespace experimental = grpc::experimental;
  if (tls.certificate.empty()) return grpc::InsecureServerCredentials();
  const auto files = std::make_shared<experimental::FileWatcherCertificateProvider>(tls.key, tls.certificate,
                                                                                    tls.client_ca, kCertificateSeconds);
  experimental::TlsServerCredentialsOptions options(files);
  options.watch_identity_key_cert_pairs();
  if (!tls.client_ca.empty()) options.watch_root_certs();
  options.set_cert_request_type(request_type(tls.client_certificates));
  return experimental::TlsServerCredentials(options);
}

class Server final : public GrpcServer, public grpc::CallbackGenericService {
 public:
  Server(net::EventLoop& loop, Options options, Handlers handlers)
      : loop_(&loop), options_(std::move(options)), state_(std::make_shared<State>(std::move(handlers))) {}
  ~Server() override { close(Duration(0)); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] Result<void> start() {
    const bool is_v6 = options_.host.find(':') != std::string::npos;
    const std::string address =
        fmt::format("{}{}{}:{}", is_v6 ? "[" : "", options_.host, is_v6 ? "]" : "", options_.port);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(address, credentials(options_.tls), &port);
    builder.SetMaxReceiveMessageSize(static_cast<int>(std::min<std::size_t>(options_.max_message_bytes, INT32_MAX)));
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                               static_cast<int>(std::min<std::size_t>(options_.max_streams, INT32_MAX)));
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
    if (!server_ || port == 0) return fail(ErrorCode::kUnavailable, fmt::format("cannot listen on {}", address));
    port_ = static_cast<std::uint16_t>(port);
    return {};
  }

  [[nodiscard]] std::uint16_t port() const override { return port_; }
  [[nodiscard]] std::uint64_t turned_away() const override { return turned_away_; }

  void close(Duration patience) override {
    if (!server_) return;
    server_->Shutdown(std::chrono::system_clock::now() + patience);
    server_->Wait();
    server_.reset();
    // What is still posted finds nothing: those who receive need what is about to go, the loop among it.
    state_->handlers = {};
    for (const auto& open : std::exchange(state_->open, {}))
      if (const auto receiver = std::exchange(open->receiver, nullptr)) receiver->on_closed();
  }

  // Called by gRPC.
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    const std::shared_ptr<GrpcStream> stream = GrpcStream::make();
    const bool fits = streams_.fetch_add(1) < options_.max_streams;
    if (!fits) {
      ++turned_away_;
      answer(stream, {grpc::StatusCode::RESOURCE_EXHAUSTED, "too many streams"});
    } else if (context->method() == kProcess) {
      begin_process(stream);
    } else if (context->method() == kHealthCheck) {
      begin_health_check(stream);
    } else {
      answer(stream, {grpc::StatusCode::UNIMPLEMENTED, "only ext_proc and health checks are served here"});
    }
    return stream.get();
  }

 private:
  /// What the loop has of a stream.
  struct Open {
    std::shared_ptr<MessageReceiver> receiver;
  };
  /// What is posted to the loop uses. Threads: the loop's.
  struct State {
    Handlers handlers;  ///< empty when the server is closed
    std::unordered_set<std::shared_ptr<Open>> open = {};
  };

  [[nodiscard]] std::function<void()> forget() {
    return [this] { streams_.fetch_sub(1); };
  }

  void answer(const std::shared_ptr<GrpcStream>& stream, const grpc::Status& status) {
    stream->end(status);
    stream->start({.on_message = [](const std::string&) {}, .on_closed = [] {}, .on_done = forget()});
  }

  void begin_process(const std::shared_ptr<GrpcStream>& stream) {
    const auto open = std::make_shared<Open>();
    loop_->post([open, stream, state = state_] {
      if (!state->handlers.open) return;
      open->receiver = state->handlers.open(stream);
      state->open.insert(open);
    });
    // gRPC keeps the stream until on_done.
    GrpcStream* const raw = stream.get();
    stream->start({.on_message =
                       [this, open, raw](const std::string& bytes) {
                         loop_->post([open, stream = raw->shared_from_this(),
                                      message = read_processing_request(bytes)]() mutable {
                           if (open->receiver) open->receiver->on_message(std::move(message));
                           stream->taken();
                         });
                       },
                   .on_closed =
                       [this, open] {
                         loop_->post([open, state = state_] {
                           state->open.erase(open);
                           if (const auto receiver = std::exchange(open->receiver, nullptr)) receiver->on_closed();
                         });
                       },
                   .on_done = forget()});
  }

  void begin_health_check(const std::shared_ptr<GrpcStream>& stream) {
    GrpcStream* const raw = stream.get();
    const auto asked = std::make_shared<std::atomic<bool>>(false);
    stream->start({.on_message =
                       [this, raw, asked](const std::string& bytes) {
                         if (asked->exchange(true)) return;
                         loop_->post(
                             [state = state_, stream = raw->shared_from_this(), service = read_health_request(bytes)] {
                               answer_health_check(state->handlers, *stream, service);
                             });
                       },
                   .on_closed =
                       [raw, asked] {
                         if (!*asked) raw->end(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no question came"));
                       },
                   .on_done = forget()});
  }

  static void answer_health_check(const Handlers& handlers, GrpcStream& stream, const Result<std::string>& service) {
    if (!service) return stream.end(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, service.error().message));
    const std::optional<bool> serving = handlers.is_serving ? handlers.is_serving(*service) : false;
    if (!serving) return stream.end(grpc::Status(grpc::StatusCode::NOT_FOUND, "there is no service of that name"));
    stream.send(write_health_response(*serving));
    stream.end(grpc::Status::OK);
  }

  net::EventLoop* loop_;
  Options options_;
  std::shared_ptr<State> state_;
  std::unique_ptr<grpc::Server> server_;
  std::uint16_t port_ = 0;
  std::atomic<std::size_t> streams_ = 0;
  std::atomic<std::uint64_t> turned_away_ = 0;
};

}  // namespace

Result<std::unique_ptr<GrpcServer>> GrpcServer::listen(net::EventLoop& loop, Options options, Handlers handlers) {
  auto server = std::make_unique<Server>(loop, std::move(options), std::move(handlers));
  KVIST_TRY_VOID(server->start());
  return std::unique_ptr<GrpcServer>(std::move(server));
}

}  // namespace kvist::epp

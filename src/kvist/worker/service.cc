#include "kvist/worker/service.h"

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kvist/engine/cpu/cpu_engine.h"
#include "kvist/engine/timed/timed_engine.h"
#include "kvist/exposure/client_listener.h"
#include "kvist/net/admin_listener.h"
#include "kvist/net/bearer_key.h"
#include "kvist/net/descriptor_limit.h"
#include "kvist/net/http_server.h"
#include "kvist/net/tls.h"
#include "kvist/net/watched_files.h"
#include "kvist/net/zmq_publisher.h"
#include "kvist/perfmodel/step_time_model.h"
#include "kvist/telemetry/log.h"
#include "kvist/text/chat.h"
#include "kvist/text/model_text.h"
#include "kvist/tokenizer/tokenizer.h"
#include "kvist/worker/cache_compaction.h"
#include "kvist/worker/client_listener.h"
#include "kvist/worker/engine_runner.h"
#include "kvist/worker/generations.h"
#include "kvist/worker/http_api.h"
#include "kvist/worker/key_check.h"
#include "kvist/worker/request_reader.h"

namespace kvist::worker {
namespace {

Result<void> check(const spec::WorkerSpec& spec) {
  const auto at_least_one = [&](std::string_view name, std::uint32_t value) -> Result<void> {
    if (value > 0) return {};
    return fail(ErrorCode::kInvalidArgument, fmt::format("worker {}: {} must be at least 1", spec.name, name));
  };
  KVIST_TRY_VOID(at_least_one("block_size", spec.block_size));
  KVIST_TRY_VOID(at_least_one("kv_blocks", spec.kv_blocks));
  KVIST_TRY_VOID(at_least_one("max_batch_size", spec.max_batch_size));
  KVIST_TRY_VOID(at_least_one("max_num_tokens", spec.max_num_tokens));
  KVIST_TRY_VOID(at_least_one("max_model_len", spec.max_model_len));
  KVIST_TRY_VOID(at_least_one("max_waiting", spec.max_waiting));
  if (spec.max_steps_in_flight != 1 && spec.max_steps_in_flight != 2) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("worker {}: max_steps_in_flight must be 1 or 2", spec.name));
  }
  if (!(spec.time_scale > 0))
    return fail(ErrorCode::kInvalidArgument, fmt::format("worker {}: time_scale must be above 0", spec.name));
  return {};
}

Result<std::unique_ptr<net::ZmqPublisher>> bind_publisher(const spec::WorkerSpec& spec) {
  net::ZmqPublisherOptions options;
  const std::string& address = spec.http.host;
  const std::string host = address.contains(':') ? fmt::format("[{}]", address) : address;
  options.endpoint = fmt::format("tcp://{}:{}", host, spec.kv_events_port);
  options.replay_endpoint = fmt::format("tcp://{}:{}", host, spec.kv_replay_port);
  options.topic = spec.kv_events_topic;
  options.buffer_messages = spec.kv_events_buffer;
  options.compaction = std::make_unique<CacheCompaction>();
  return net::ZmqPublisher::bind(std::move(options));
}

/// The tokenizer and chat template of the worker.
struct TextParts {
  std::unique_ptr<const tokenizer::Tokenizer> tokenizer;
  std::unique_ptr<const text::ChatTemplate> chat_template;
};

Result<TextParts> load_text(const spec::WorkerSpec& spec) {
  if (spec.tokenizer.empty())
    return TextParts{std::make_unique<const tokenizer::ByteTokenizer>(),
                     std::make_unique<const text::SimpleChatTemplate>()};
  KVIST_TRY(text::ModelText model, text::ModelText::load(spec.tokenizer));
  if (model.tokenizer->end_tokens().empty()) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: neither generation_config.json nor config.json nor tokenizer_config.json names a token "
                    "that ends an answer (eos_token_id, eos_token)",
                    spec.tokenizer));
  }
  return TextParts{std::move(model.tokenizer), std::move(model.chat_template)};
}

struct EngineParts {
  std::unique_ptr<engine::Driver> driver;
  std::uint32_t vocabulary = 0;  ///< it takes tokens below this
};

/// Fills in the members of `spec` that the engine determines.
Result<EngineParts> make_engine(spec::WorkerSpec& spec, const tokenizer::Tokenizer& tokenizer) {
  if (!spec.cpu) {
    KVIST_TRY(std::unique_ptr<engine::Driver> timed, engine::make_timed_engine(spec, tokenizer));
    return EngineParts{.driver = std::move(timed), .vocabulary = tokenizer.vocabulary_size()};
  }
  const std::span<const TokenId> ends = tokenizer.end_tokens();
  KVIST_TRY(engine::cpu::CpuEngine made,
            engine::cpu::make_cpu_engine(spec, {ends.begin(), ends.end()}, tokenizer.vocabulary_size()));
  telemetry::log_info("worker", fmt::format("{} computes {}:\n{}", spec.name, spec.cpu->model, made.memory_table));
  spec = std::move(made.worker);
  return EngineParts{.driver = std::move(made.driver), .vocabulary = made.vocabulary};
}

// The members are in the order of construction, each based on those before it, so the server is destroyed first.
class ServiceImpl final : public Service {
 public:
  ServiceImpl(net::EventLoop& loop, spec::WorkerSpec spec, TextParts text, EngineParts engine,
              std::unique_ptr<net::ZmqPublisher> publisher)
      : spec_(std::move(spec)),
        text_(std::move(text)),
        runner_(loop, std::move(engine.driver), std::move(publisher), spec_.max_model_len),
        generations_(std::make_shared<Generations>(spec_, *text_.tokenizer, runner_)),
        reader_(spec_, *text_.tokenizer, *text_.chat_template, engine.vocabulary),
        api_(loop, spec_, reader_, runner_, *generations_),
        drain_timer_(loop),
        files_(loop) {
    runner_.set_output_handler([this](const engine::RequestOutput& output, EngineRunner::Logprobs logprobs) {
      generations_->on_output(output, logprobs);
    });
  }

  [[nodiscard]] Result<void> listen(net::EventLoop& loop) {
    KVIST_TRY_VOID(open_keys());
    net::HttpServerOptions options = client_listener(spec_, net::raise_descriptor_limit());
    KVIST_TRY(options.tls, open_tls(spec_.tls));
    if (keys_) options.before_body = [this](const net::HttpRequest& head) { return api_.refuse_stranger(head); };
    const net::TlsServer* const tls = options.tls.get();
    KVIST_TRY(server_,
              net::HttpServer::listen(loop, std::move(options),
                                      [this](net::HttpRequest request, std::shared_ptr<net::HttpExchange> exchange) {
                                        api_.handle(std::move(request), std::move(exchange));
                                      }));
    api_.tell_of(*server_, tls);
    const bool asks_who = spec_.admin_tls.client_certificates == spec::ClientCertificates::kRequired;
    net::HttpServerOptions admin_options = net::admin_listener(spec_.admin.host, spec_.admin.port, asks_who);
    KVIST_TRY(admin_options.tls, open_tls(spec_.admin_tls));
    auto admin =
        net::HttpServer::listen(loop, std::move(admin_options),
                                [this](net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) {
                                  api_.handle_admin(std::move(request), exchange);
                                });
    if (!admin) return std::unexpected(std::move(admin).error().in("worker.admin"));
    admin_server_ = *std::move(admin);
    files_.start();
    telemetry::log_info(
        "worker", fmt::format("{} serves {} on {}:{}, administration on {}:{}, KV events on port {}, replay on port {}",
                              spec_.name, spec_.model, spec_.http.host, port(), spec_.admin.host, admin_port(),
                              kv_events_port(), kv_replay_port()));
    return {};
  }

  [[nodiscard]] std::uint16_t port() const override { return server_->port(); }
  [[nodiscard]] std::uint16_t admin_port() const override { return admin_server_->port(); }
  [[nodiscard]] std::uint16_t kv_events_port() const override { return runner_.publisher().port(); }
  [[nodiscard]] std::uint16_t kv_replay_port() const override { return runner_.publisher().replay_port(); }

  void reload() override { files_.ask(); }

  void shut_down(std::function<void()> done) override {
    telemetry::log_info("worker",
                        fmt::format("{} drains: its answers have {} s", spec_.name, to_seconds(spec_.drain_timeout)));
    api_.refuse_new();
    server_->drain();
    drain_timer_.arm(net::now() + spec_.drain_timeout, [this] { end_now(); });
    drained_ = std::move(done);
    generations_->on_idle([this] {
      idle_ = true;
      if (out_of_time_) return end_drain();
      // Slow clients have the rest of the time to read what is theirs.
      server_->when_sent([this] { end_drain(); });
    });
  }

  void end_now() override {
    out_of_time_ = true;
    generations_->end_all({ErrorCode::kUnavailable, "the worker is shutting down"});
    if (idle_) end_drain();
  }

 private:
  [[nodiscard]] Result<void> open_keys() {
    const std::string& file = spec_.api_key_file;
    if (file.empty()) return {};
    net::FileStamps before = net::WatchedFiles::stamps_of({file});
    KVIST_TRY(net::BearerKeys keys, net::BearerKeys::read(file));
    keys_.emplace(file, std::move(keys));
    api_.ask_for(*keys_);
    telemetry::log_info("keys", fmt::format("{}: {} keys", file, keys_->size()));
    files_.add({file}, std::move(before), [this, file]() -> std::function<void()> {
      return [this, read = net::BearerKeys::read(file)] {
        if (read) {
          keys_->replace(*read);
          telemetry::log_info("keys", fmt::format("{} was read again: {} keys", keys_->file(), keys_->size()));
        } else {
          telemetry::log_error("keys", fmt::format("the keys stay as they were: {}", read.error().message));
        }
      };
    });
    return {};
  }

  /// The certificate of a listener, which is read again when its files change; null if it has none.
  [[nodiscard]] Result<std::shared_ptr<net::TlsServer>> open_tls(const spec::ServerTlsSpec& spec) {
    std::vector<std::string> files = {spec.certificate, spec.key};
    if (!spec.client_ca.empty()) files.push_back(spec.client_ca);
    net::FileStamps before = net::WatchedFiles::stamps_of(files);
    KVIST_TRY(std::shared_ptr<net::TlsServer> tls, exposure::load_tls(spec));
    if (!tls) return nullptr;
    files_.add(std::move(files), std::move(before), [tls]() -> std::function<void()> {
      return [tls, read = tls->reload()] {
        if (read) {
          telemetry::log_info("tls", fmt::format("{} was read again", tls->options().certificate));
        } else {
          telemetry::log_error("tls", fmt::format("the certificate stays as it was: {}", read.error().message));
        }
      };
    });
    return tls;
  }

  void end_drain() {
    drain_timer_.cancel();
    if (const auto done = std::exchange(drained_, nullptr)) done();
  }

  spec::WorkerSpec spec_;
  TextParts text_;
  EngineRunner runner_;
  std::shared_ptr<Generations> generations_;
  RequestReader reader_;
  std::optional<KeyCheck> keys_;  // none: requests need no key
  HttpApi api_;
  net::Timer drain_timer_;
  net::WatchedFiles files_;
  bool idle_ = false;  // draining: no answer is under way any more
  bool out_of_time_ = false;
  std::function<void()> drained_;
  std::unique_ptr<net::HttpServer> server_;
  std::unique_ptr<net::HttpServer> admin_server_;
};

}  // namespace

Result<std::unique_ptr<Service>> Service::create(net::EventLoop& loop, spec::WorkerSpec wanted) {
  // From here on the settings are those that the profile, or the model, determines. They are checked, used and
  // reported.
  KVIST_TRY(spec::WorkerSpec spec, perfmodel::resolve(wanted));
  KVIST_TRY_VOID(check(spec));
  KVIST_TRY(TextParts text, load_text(spec));
  KVIST_TRY(EngineParts engine, make_engine(spec, *text.tokenizer));
  KVIST_TRY(std::unique_ptr<net::ZmqPublisher> publisher, bind_publisher(spec));
  auto service =
      std::make_unique<ServiceImpl>(loop, std::move(spec), std::move(text), std::move(engine), std::move(publisher));
  KVIST_TRY_VOID(service->listen(loop));
  return service;
}

}  // namespace kvist::worker

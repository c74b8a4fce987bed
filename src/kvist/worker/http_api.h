// The worker's HTTP interface.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "kvist/base/error.h"
#include "kvist/base/random.h"
#include "kvist/net/http_server.h"
#include "kvist/net/path_table.h"
#include "kvist/net/tls.h"
#include "kvist/net/work_pool.h"
#include "kvist/spec/deployment.h"
#include "kvist/worker/engine_runner.h"
#include "kvist/worker/generations.h"
#include "kvist/worker/key_check.h"
#include "kvist/worker/request_reader.h"

namespace kvist::worker {

/// Reads requests and passes generations on; answers all other requests itself. Large bodies are read on a thread of
/// their own, so that none of them stops the streams under way. Threads: the loop's.
class HttpApi {
 public:
  /// Bodies of more bytes are read beside the loop: reading so much takes some milliseconds.
  static constexpr std::size_t kReadOnLoopBytes = 64U << 10;

  /// Requires: the arguments outlive it.
  HttpApi(net::EventLoop& loop, const spec::WorkerSpec& spec, const RequestReader& reader, EngineRunner& runner,
          Generations& generations);

  HttpApi(const HttpApi&) = delete;
  HttpApi& operator=(const HttpApi&) = delete;

  /// Asks for keys from now on. Requires: they outlive it.
  void ask_for(KeyCheck& keys) { keys_ = &keys; }
  /// What the metrics tell of the listener. `tls`: null: plain HTTP. Requires: both outlive it.
  void tell_of(const net::HttpServer& listener, const net::TlsServer* tls) {
    listener_ = &listener;
    tls_ = tls;
  }

  void handle(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange);
  /// The answer to a request without a key that is needed, judged by its head.
  [[nodiscard]] std::optional<net::HttpResponse> refuse_stranger(const net::HttpRequest& head);
  /// Requests that change the worker or show its inside, which come on a listener of their own.
  void handle_admin(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) {
    admin_paths_.handle(std::move(request), exchange);
  }
  /// From now on generations are refused with 503, and /health reports it.
  void refuse_new() { refusing_ = true; }

 private:
  struct Call;
  template <class Asked>
  using Reads = Result<Asked> (RequestReader::*)(std::string_view body) const;
  template <class Asked>
  using Takes = void (HttpApi::*)(Call& call, Asked asked);

  [[nodiscard]] static Caller caller_of(const Call& call);
  void chat(Call& call);
  void completion(Call& call);
  void models(Call& call);
  void model(Call& call);
  void health(Call& call);
  void version(Call& call);
  void metrics(Call& call);
  void reset_prefix_cache(Call& call);
  void tokenize(Call& call);
  void detokenize(Call& call);
  void kv_blocks(Call& call);

  void on(net::PathTable& paths, const std::string& method, const std::string& path,
          void (HttpApi::*handler)(Call& call));
  [[nodiscard]] net::HttpResponse refused(const net::HttpRequest& request, int status, const std::string& message);
  /// The call's body is read, here or beside the loop, and what it asks for is taken here.
  template <class Asked>
  void read(Call& call, Reads<Asked> reads, Takes<Asked> takes);
  template <class Asked>
  void read_beside_the_loop(Call& call, Reads<Asked> reads, Takes<Asked> takes);
  void start(Call& call, GenerationRequest request);
  void answer(Call& call, std::string body);
  [[nodiscard]] std::string request_id(const net::Headers& headers);

  const spec::WorkerSpec* spec_;
  const RequestReader* reader_;
  EngineRunner* runner_;
  Generations* generations_;
  double started_unix_s_;
  RandomStream ids_;
  KeyCheck* keys_ = nullptr;  // null: requests need none
  const net::HttpServer* listener_ = nullptr;
  const net::TlsServer* tls_ = nullptr;
  net::PathTable paths_;
  net::PathTable admin_paths_;
  net::WorkPool pool_;  // of large bodies
  bool refusing_ = false;
};

}  // namespace kvist::worker

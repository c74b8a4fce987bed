// The worker's HTTP interface.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "kvist/base/error.h"
#include "kvist/base/random.h"
#include "kvist/net/http_server.h"
#include "kvist/net/path_table.h"
#include "kvist/spec/deployment.h"
#include "kvist/tokenizer/tokenizer.h"
#include "kvist/worker/engine_runner.h"
#include "kvist/worker/generations.h"

namespace kvist::worker {

/// Reads requests and passes generations on; answers all other requests itself. Threads: the loop's.
class HttpApi {
 public:
  /// Requires: the four arguments outlive it.
  HttpApi(const spec::WorkerSpec& spec, const tokenizer::Tokenizer& tokenizer, EngineRunner& runner,
          Generations& generations);

  HttpApi(const HttpApi&) = delete;
  HttpApi& operator=(const HttpApi&) = delete;

  void handle(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) {
    paths_.handle(std::move(request), exchange);
  }
  /// Requests that change the worker or show its inside, which come on a listener of their own.
  void handle_admin(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) {
    admin_paths_.handle(std::move(request), exchange);
  }
  /// From now on generations are refused with 503, and /health reports it.
  void refuse_new() { refusing_ = true; }

 private:
  struct Call;

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
  [[nodiscard]] Result<void> check_model(std::string_view model) const;
  [[nodiscard]] std::string request_id(const net::Headers& headers);

  const spec::WorkerSpec* spec_;
  const tokenizer::Tokenizer* tokenizer_;
  EngineRunner* runner_;
  Generations* generations_;
  double started_unix_s_;
  RandomStream ids_;
  net::PathTable paths_;
  net::PathTable admin_paths_;
  bool refusing_ = false;
};

}  // namespace kvist::worker

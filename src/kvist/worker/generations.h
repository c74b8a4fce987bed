// All generation requests under way: from the typed request to the engine, and from its outputs to the client.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/engine/request.h"
#include "kvist/net/http_server.h"
#include "kvist/openai/types.h"
#include "kvist/spec/deployment.h"
#include "kvist/worker/answer.h"
#include "kvist/worker/engine_runner.h"
#include "kvist/worker/request_reader.h"

namespace kvist::worker {

/// The parts of a generation request besides its body.
struct Caller {
  std::shared_ptr<net::HttpExchange> exchange;
  std::string request_id;
  /// It asks for a stream that another worker can go on with, and has so many tokens of the answer
  /// (openai::kResumableHeader).
  std::optional<std::int64_t> resumable = {};
};

/// Owns the answers under way. If a client leaves or does not read its answer, its batch slot is freed at once. Owned
/// by a shared pointer, because exchanges may outlive it. Threads: the loop's.
class Generations : public std::enable_shared_from_this<Generations> {
 public:
  /// The most bytes of one answer that may wait for a slow client; beyond them the answer ends with an error.
  static constexpr std::size_t kMaxUnsentBytes = 4UL << 20;

  /// Requires: all arguments outlive it.
  Generations(const spec::WorkerSpec& spec, const tokenizer::Tokenizer& tokenizer, EngineRunner& runner);

  /// Starts an answer. After an error nothing was started, and the caller still has to be answered.
  [[nodiscard]] Result<void> start(GenerationRequest request, const Caller& caller);
  /// A request is being read elsewhere: until it has come, an answer counts as under way.
  void expect() { ++expected_; }
  /// It was started, or not. Requires: a call of expect() for it.
  void came();

  /// For EngineRunner::set_output_handler.
  void on_output(const engine::RequestOutput& output, EngineRunner::Logprobs logprobs);
  /// Ends every answer under way with an error, and those that start() is asked for from here on.
  void end_all(const Error& error);
  /// Calls `handler` once, as soon as no answer is under way, which may be at once.
  void on_idle(std::function<void()> handler);

  [[nodiscard]] std::uint64_t slow_clients() const { return slow_clients_; }

 private:
  struct Entry {
    std::shared_ptr<Answer> answer;
    std::size_t choice = 0;
  };

  [[nodiscard]] Result<engine::Request> make_request(std::vector<TokenId> prompt,
                                                     const openai::GenerationOptions& options, std::uint64_t seed,
                                                     std::size_t answer) const;
  [[nodiscard]] Result<std::vector<RequestId>> submit_all(std::vector<std::vector<TokenId>> prompts,
                                                          const openai::GenerationOptions& options,
                                                          std::string_view request_id);
  void forget(const Answer& answer);
  void look_whether_idle();

  const spec::WorkerSpec* spec_;
  const tokenizer::Tokenizer* tokenizer_;
  EngineRunner* runner_;
  std::map<RequestId, Entry> entries_;  // ordered, so that ending all is reproducible
  std::uint64_t last_request_ = 0;
  std::uint64_t slow_clients_ = 0;
  std::size_t expected_ = 0;
  std::optional<Error> ended_;  // by end_all()
  std::function<void()> idle_;
};

}  // namespace kvist::worker

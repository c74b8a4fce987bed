// All generation requests under way: from the typed request to the engine, and from its outputs to the client.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/engine/request.h"
#include "kvist/net/http_server.h"
#include "kvist/openai/types.h"
#include "kvist/spec/deployment.h"
#include "kvist/text/chat.h"
#include "kvist/worker/answer.h"
#include "kvist/worker/engine_runner.h"

namespace kvist::worker {

/// What a generation request arrives with beside its body.
struct Caller {
  std::shared_ptr<net::HttpExchange> exchange;
  std::string request_id;
};

/// Owns the answers under way. A client that leaves, or that does not take its answer, frees its batch slot at once.
/// Loop thread only. Lives in a shared pointer: exchanges may outlive it.
class Generations : public std::enable_shared_from_this<Generations> {
 public:
  /// Bytes of one answer that may wait for a slow client; more, and the connection is broken off.
  static constexpr std::size_t kMaxUnsentBytes = 4UL << 20;

  /// All must outlive it.
  Generations(const spec::WorkerSpec& spec, const tokenizer::Tokenizer& tokenizer,
              const text::ChatTemplate& chat_template, EngineRunner& runner);

  /// Start an answer; an error means that nothing was started and the caller still has to be answered.
  [[nodiscard]] Result<void> start_chat(const openai::ChatRequest& request, const Caller& caller);
  [[nodiscard]] Result<void> start_completion(const openai::CompletionRequest& request, const Caller& caller);

  /// For EngineRunner::set_output_handler.
  void on_output(const engine::RequestOutput& output, EngineRunner::Logprobs logprobs);
  /// Ends every answer under way with an error.
  void end_all(const Error& error);

  /// The prompt tokens of a chat or of one completion prompt, checked against the vocabulary.
  /// kUnsupported: what the template does not write.
  [[nodiscard]] Result<std::vector<TokenId>> tokens_of(const openai::ChatPrompt& chat,
                                                       const openai::PromptOptions& options) const;
  [[nodiscard]] Result<std::vector<TokenId>> tokens_of(const openai::Prompt& prompt, std::string_view path,
                                                       const openai::PromptOptions& options) const;

  [[nodiscard]] std::uint64_t slow_clients() const { return slow_clients_; }

 private:
  struct Entry {
    std::shared_ptr<Answer> answer;
    std::size_t choice = 0;
  };

  /// `answer`: what is known of it beside the options.
  [[nodiscard]] Result<void> start(std::vector<std::vector<TokenId>> prompts, const openai::GenerationOptions& options,
                                   const Caller& caller, AnswerOptions answer);
  [[nodiscard]] Result<engine::Request> make_request(std::vector<TokenId> prompt,
                                                     const openai::GenerationOptions& options,
                                                     std::size_t answer) const;
  [[nodiscard]] Result<std::vector<RequestId>> submit_all(std::vector<std::vector<TokenId>> prompts,
                                                          const openai::GenerationOptions& options);
  void forget(const Answer& answer);

  const spec::WorkerSpec* spec_;
  const tokenizer::Tokenizer* tokenizer_;
  const text::ChatTemplate* chat_template_;
  EngineRunner* runner_;
  std::map<RequestId, Entry> entries_;  // ordered, so that ending all is reproducible
  std::uint64_t last_request_ = 0;
  std::uint64_t slow_clients_ = 0;
};

}  // namespace kvist::worker

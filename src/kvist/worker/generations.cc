#include "kvist/worker/generations.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "kvist/base/random.h"
#include "kvist/kv/block_hash.h"
#include "kvist/net/time_of_day.h"
#include "kvist/openai/resumption.h"
#include "kvist/worker/request_options.h"

namespace kvist::worker {
namespace {

// A request without a seed gets another one each time: from its id, which is random unless a client or a gateway gives
// one. So an answer that goes on at another worker, where it has the same id, goes on with the same seed. A greedy
// request has one answer, so its seed is its prompt's alone; the timed engine makes up the same answer from it.
std::uint64_t seed_of(const std::vector<TokenId>& prompt, const openai::Sampling& sampling,
                      std::string_view request_id) {
  const kv::BlockHash root = kv::root_hash({.model = "answer seed", .lora = "", .cache_salt = ""});
  const std::uint64_t of_prompt = kv::chain_hash(root, prompt).value();
  return sampling.temperature == 0 ? of_prompt : mix_seed({of_prompt, seed_part(request_id)});
}

}  // namespace

Generations::Generations(const spec::WorkerSpec& spec, const tokenizer::Tokenizer& tokenizer, EngineRunner& runner)
    : spec_(&spec), tokenizer_(&tokenizer), runner_(&runner) {}

Result<void> Generations::start(GenerationRequest request, const Caller& caller) {
  // One that was still being read: begun now, it would keep a worker that is out of time from its end.
  if (ended_) return std::unexpected(*ended_);
  const openai::GenerationOptions& options = request.options;
  AnswerOptions answer_options = std::move(request.answer);
  const bool one_text = request.prompts.size() * options.best_of == 1 && !answer_options.tool_calls;
  KVIST_TRY(std::vector<RequestId> requests, submit_all(std::move(request.prompts), options, caller.request_id));
  openai::AnswerHead& head = answer_options.head;
  head.id = (head.chat ? "chatcmpl-" : "cmpl-") + caller.request_id;
  head.model = spec_->model;
  head.created = options.resumption ? options.resumption->created : static_cast<std::int64_t>(net::unix_seconds());
  answer_options.request_id = caller.request_id;
  // What another client resumed, a proxy does not know; then its count differs.
  answer_options.resumable = options.stream && one_text && caller.resumable &&
                             std::cmp_equal(*caller.resumable, answer_options.resumed.size());
  if (options.stream && caller.resumable && !one_text)
    answer_options.why_not_resumable = answer_options.tool_calls ? openai::kToolCalls : openai::kSeveralChoices;
  const auto answer =
      std::make_shared<Answer>(caller.exchange, *tokenizer_, std::move(answer_options), std::move(requests));
  for (std::size_t i = 0; i < answer->choices().size(); ++i) entries_[answer->choices()[i]] = {answer, i};
  // The exchange holds this handler and the answer holds the exchange, so the handler has only weak pointers.
  caller.exchange->on_client_gone([weak_this = weak_from_this(), weak_answer = std::weak_ptr<Answer>(answer)] {
    const auto self = weak_this.lock();
    const auto left = weak_answer.lock();
    if (self && left) self->forget(*left);
  });
  answer->begin();
  return {};
}

// Queues all prompts of a request, or none; each as often as there are answers to it.
Result<std::vector<RequestId>> Generations::submit_all(std::vector<std::vector<TokenId>> prompts,
                                                       const openai::GenerationOptions& options,
                                                       std::string_view request_id) {
  std::vector<engine::Request> requests;
  for (const std::vector<TokenId>& prompt : prompts) {
    const std::uint64_t seed = options.seed ? *options.seed : seed_of(prompt, options.sampling, request_id);
    for (std::uint32_t choice = 0; choice < options.best_of; ++choice) {
      KVIST_TRY(engine::Request request, make_request(prompt, options, seed, requests.size()));
      requests.push_back(std::move(request));
    }
  }
  std::vector<RequestId> ids;
  for (engine::Request& request : requests) {
    const RequestId id(++last_request_);
    request.id = id;
    const RequestId prompt =
        ids.size() % options.best_of == 0 ? id : ids[ids.size() / options.best_of * options.best_of];
    if (Result<void> submitted = runner_->submit(std::move(request), prompt); !submitted) {
      for (const RequestId queued : ids) runner_->abort(queued);
      return std::unexpected(std::move(submitted).error());
    }
    ids.push_back(id);
  }
  return ids;
}

Result<engine::Request> Generations::make_request(std::vector<TokenId> prompt, const openai::GenerationOptions& options,
                                                  std::uint64_t seed, std::size_t answer) const {
  const std::size_t resumed = options.resumption ? options.resumption->tokens.size() : 0;
  const std::uint32_t room = spec_->max_model_len - static_cast<std::uint32_t>(prompt.size());
  engine::Request request;
  request.max_tokens = std::max(options.max_tokens.value_or(room), 1U);  // of an echo alone, it is dropped
  if (resumed >= request.max_tokens) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("kvist_resume: expected fewer tokens than max_tokens, which is {}, got {}",
                            request.max_tokens, resumed));
  }
  if (options.sampling.min_tokens > request.max_tokens) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("min_tokens: expected at most max_tokens, which is {}, got {}",
                                                         request.max_tokens, options.sampling.min_tokens));
  }
  request.seed = seed;
  // Several prompts with one seed need different answers, and so do several answers to one prompt.
  if (answer > 0 && (options.seed || options.sampling.temperature != 0 || answer % options.best_of > 0))
    request.seed = mix_seed({request.seed, seed_part("choice"), answer});
  request.ignore_eos = options.ignore_eos;
  request.priority = options.priority;
  // The timed engine makes up its tokens and uses only these.
  const bool ranks = options.best_of > options.choices;
  if (spec_->cpu || options.sampling.logprobs || ranks || options.sampling.min_tokens > 0)
    request.sampling = sampling_of(options);
  request.cache_salt = options.cache_salt;
  request.prompt = std::move(prompt);
  if (!options.resumption) return request;
  const std::vector<TokenId>& tokens = options.resumption->tokens;
  request.prompt.insert(request.prompt.end(), tokens.begin(), tokens.end());
  request.resumed = static_cast<std::uint32_t>(resumed);
  request.max_tokens -= request.resumed;
  return request;
}

void Generations::on_output(const engine::RequestOutput& output, EngineRunner::Logprobs logprobs) {
  const auto found = entries_.find(output.id);
  if (found == entries_.end()) return;  // aborted before
  const Entry entry = found->second;
  if (output.finish) entries_.erase(found);
  entry.answer->add(entry.choice, output, logprobs);
  // A stop string ended the choice, perhaps with the last token that it could have.
  if (output.finish == engine::FinishReason::kLength && entry.answer->was_stopped(entry.choice))
    runner_->stopped_at_the_limit();
  if (!output.finish && entry.answer->has_ended(entry.choice)) {
    entries_.erase(output.id);
    runner_->stop(output.id);
  }
  if (entry.answer->complete() || entry.answer->unsent_bytes() <= kMaxUnsentBytes) return look_whether_idle();
  // What waits are whole events, and the client may have paused only: behind them it is told, and keeps what it has.
  // The error's status says that it is none of this worker, which a gateway must not give up for it.
  ++slow_clients_;
  forget(*entry.answer);
  entry.answer->fail(
      {ErrorCode::kCancelled, fmt::format("the answer was given up, as {} MiB of it waited for the client to read them",
                                          kMaxUnsentBytes >> 20)});
}

void Generations::forget(const Answer& answer) {
  // The entries may hold the last reference to the answer.
  const std::vector<RequestId> requests = answer.choices();  // NOLINT(performance-unnecessary-copy-initialization)
  for (const RequestId request : requests) {
    if (entries_.erase(request) > 0) runner_->abort(request);
  }
  look_whether_idle();
}

void Generations::on_idle(std::function<void()> handler) {
  idle_ = std::move(handler);
  look_whether_idle();
}

void Generations::came() {
  --expected_;
  look_whether_idle();
}

void Generations::look_whether_idle() {
  if (entries_.empty() && expected_ == 0 && idle_) std::exchange(idle_, nullptr)();
}

void Generations::end_all(const Error& error) {
  ended_ = error;
  while (!entries_.empty()) {
    const std::shared_ptr<Answer> answer = entries_.begin()->second.answer;
    forget(*answer);
    answer->fail(error);
  }
}

}  // namespace kvist::worker

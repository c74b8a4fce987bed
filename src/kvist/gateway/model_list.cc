#include "kvist/gateway/model_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "kvist/base/json.h"
#include "kvist/base/json_writer.h"
#include "kvist/gateway/error_answer.h"
#include "kvist/gateway/proxy_headers.h"
#include "kvist/openai/codec.h"

namespace kvist::gateway {

/// One client's question to all workers.
struct ModelList::Round {
  std::shared_ptr<net::HttpExchange> exchange;
  std::optional<std::string> model;  // the only one asked about
  KeyLease lease;
  std::vector<std::unique_ptr<net::HttpCall>> calls;
  std::vector<Result<net::HttpResponse>> answers;  // by WorkerId
  std::size_t open = 0;
};

namespace {

// The first list with the other workers' models added, each once, in the order of the workers.
std::optional<net::HttpResponse> merged(const std::vector<Result<net::HttpResponse>>& answers) {
  std::vector<openai::ModelCard> models;
  std::optional<net::HttpResponse> whole;
  for (const Result<net::HttpResponse>& answer : answers) {
    if (!answer || answer->status != 200) continue;
    auto list = openai::parse_model_list(answer->body);
    if (!list) continue;
    if (!whole) whole = *answer;
    for (openai::ModelCard& model : *list) {
      if (std::ranges::find(models, model.id, &openai::ModelCard::id) == models.end())
        models.push_back(std::move(model));
    }
  }
  if (whole) whole->body = openai::model_list(models);
  return whole;
}

// The model's further names are entries like its own.
void add_aliases(std::string& list, const std::string& model, const std::vector<std::string>& aliases) {
  auto models = openai::parse_model_list(list);
  if (aliases.empty() || !models) return;
  const auto own = std::ranges::find(*models, model, &openai::ModelCard::id);
  if (own == models->end()) return;
  const std::uint32_t max_model_len = own->max_model_len;
  for (const std::string& alias : aliases) {
    JsonWriter json;
    json.begin_object().field("id", alias).field("object", "model").field("owned_by", "kvist").field("root", model);
    if (max_model_len != 0) json.field("max_model_len", max_model_len);
    json.end_object();
    models->push_back({.id = alias, .json = json.take(), .max_model_len = max_model_len});
  }
  list = openai::model_list(*models);
}

// The first refusal, for the case that no worker gave a list.
std::optional<net::HttpResponse> first_refusal(const std::vector<Result<net::HttpResponse>>& answers) {
  const auto refused =
      std::ranges::find_if(answers, [](const auto& answer) { return answer && answer->status != 200; });
  return refused == answers.end() ? std::nullopt : std::optional(**refused);
}

// The entry of one model, from a whole list.
net::HttpResponse only(const std::string& model, net::HttpResponse list) {
  const auto cards = openai::parse_model_list(list.body);
  if (cards) {
    const auto found = std::ranges::find(*cards, model, &openai::ModelCard::id);
    if (found != cards->end()) {
      list.body = found->json;
      return list;
    }
  }
  return error_answer({ErrorCode::kNotFound,
                       fmt::format("model: {} does not exist; GET /v1/models lists those that do", in_quotes(model))});
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::optional<std::string> model_of_path(std::string_view path) {
  constexpr std::string_view kPrefix = "/v1/models/";
  if (!path.starts_with(kPrefix) || path.size() == kPrefix.size()) return std::nullopt;
  path.remove_prefix(kPrefix.size());
  std::string model;
  for (std::size_t i = 0; i < path.size(); ++i) {
    char c = path[i];
    if (c == '%') {
      if (i + 2 >= path.size()) return std::nullopt;
      const int high = hex_digit(path[i + 1]);
      const int low = hex_digit(path[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7F') return std::nullopt;
    model += c;
  }
  return model;
}

ModelList::ModelList(net::HttpClient& client, const dispatch::Fleet& fleet,
                     const std::vector<spec::UpstreamSpec>& workers, const std::string& model,
                     const std::vector<std::string>& aliases, std::string own, bool pass_client_keys)
    : client_(&client),
      fleet_(&fleet),
      workers_(&workers),
      model_(&model),
      aliases_(&aliases),
      own_(std::move(own)),
      pass_client_keys_(pass_client_keys) {}

void ModelList::answer(const net::HttpRequest& request, const std::shared_ptr<net::HttpExchange>& exchange,
                       KeyLease lease) {
  if (rounds_.size() >= kMaxRounds)
    return exchange->respond(error_answer({ErrorCode::kUnavailable, "too many lists of models are being made"}));
  const auto round = std::make_shared<Round>();
  round->exchange = exchange;
  round->model = model_of_path(request.path());
  round->lease = std::move(lease);
  round->answers.resize(fleet_->size(), fail(ErrorCode::kUnavailable, "not asked"));
  const Credentials credentials = pass_client_keys_ ? Credentials::kPass : Credentials::kKeep;
  net::HttpRequest question{.method = "GET",
                            .target = round->model ? "/v1/models" : request.target,
                            .headers = headers_for_worker(request.headers, "", credentials),
                            .body = {}};
  question.headers.remove(kRequestIdHeader);
  for (std::uint32_t i = 0; i < fleet_->size(); ++i) {
    if (!fleet_->views()[i].available) continue;
    ++round->open;
    round->calls.push_back(client_->fetch((*workers_)[i].url, question, kTimeout,
                                          [this, i, weak = std::weak_ptr<Round>(round)](Result<net::HttpResponse> got) {
                                            const auto asked = weak.lock();
                                            if (!asked) return;
                                            asked->answers[i] = std::move(got);
                                            if (--asked->open == 0) finish(asked);
                                          }));
  }
  if (round->open == 0) return finish(round);
  rounds_.insert(round);
  exchange->on_client_gone([this, weak = std::weak_ptr<Round>(round)] {
    if (const auto left = weak.lock()) rounds_.erase(left);
  });
}

void ModelList::finish(const std::shared_ptr<Round>& round) {
  auto answer = merged(round->answers);
  if (!answer) answer = first_refusal(round->answers);
  if (answer) {
    answer->headers = headers_for_client(std::move(answer->headers), "", "");
    answer->headers.remove(kRequestIdHeader);
  }
  net::HttpResponse list = answer ? *std::move(answer) : json_answer(own_);
  constexpr int kOk = 200;
  if (list.status == kOk) {
    add_aliases(list.body, *model_, *aliases_);
    if (round->model) list = only(*round->model, std::move(list));
  }
  round->exchange->respond(std::move(list));
  rounds_.erase(round);
}

}  // namespace kvist::gateway

#include "kvist/gateway/model_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <unordered_set>
#include <utility>

#include "kvist/base/json.h"
#include "kvist/base/json_writer.h"
#include "kvist/gateway/error_answer.h"
#include "kvist/gateway/proxy_headers.h"
#include "kvist/openai/codec.h"

namespace kvist::gateway {

/// A question to all workers, and who waits for the answer.
struct ModelList::Round {
  /// A served model, as it was when the question was put.
  struct Asked {
    std::string name;
    std::vector<std::string> aliases;
    std::uint32_t max_model_len = 0;                 // as the workers said last; 0: not known
    std::vector<std::vector<std::string>> adapters;  // likewise; by WorkerId, as the next
    std::vector<Result<net::HttpResponse>> answers;
  };
  struct Waiting {
    std::shared_ptr<net::HttpExchange> exchange;
    std::optional<std::string> model;  // the only one asked about
    KeyLease lease;
  };
  std::string key;
  TimePoint began;
  std::shared_ptr<const ModelNames> names;  // of the models asked about
  std::vector<Waiting> waiting = {};
  std::vector<std::unique_ptr<net::HttpCall>> calls = {};
  std::deque<Asked> asked = {};  // calls refer to its elements
  std::size_t open = 0;
};

/// The answer of a round.
struct ModelList::Finished {
  std::string key;
  TimePoint began;
  std::shared_ptr<const ModelNames> names;
  net::HttpResponse list;
  std::vector<openai::ModelCard> cards;  // of the list, if its status is 200

  [[nodiscard]] net::HttpResponse answer(const std::optional<std::string>& model) const;
};

namespace {

constexpr int kOk = 200;

// A list of entries; the first of each name counts. A fleet may have thousands of adapters, each at many workers.
class Cards {
 public:
  void add(openai::ModelCard card) {
    if (names_.insert(card.id).second) cards_.push_back(std::move(card));
  }
  [[nodiscard]] bool has(const std::string& name) const { return names_.contains(name); }
  [[nodiscard]] std::vector<openai::ModelCard>& all() { return cards_; }

 private:
  std::vector<openai::ModelCard> cards_;
  std::unordered_set<std::string> names_;
};

// The workers' entries, each once, in the order of the workers; nothing if none of them gave a list. Takes the adapters
// of workers that gave a list out of `adapters`, because their lists have them.
std::optional<Cards> merged(const std::vector<Result<net::HttpResponse>>& answers,
                            std::vector<std::vector<std::string>>& adapters) {
  std::optional<Cards> models;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Result<net::HttpResponse>& answer = answers[i];
    if (!answer || answer->status != kOk) continue;
    auto list = openai::parse_model_list(answer->body);
    if (!list) continue;
    if (!models) models.emplace();
    adapters[i].clear();
    for (openai::ModelCard& model : *list) models->add(std::move(model));
  }
  return models;
}

// Lists the adapters of workers that did not answer, or were not asked because better ones are there. Requests for them
// are taken all the same.
void add_adapters(Cards& models, const std::string& model, const std::vector<std::vector<std::string>>& adapters) {
  for (const std::vector<std::string>& of_worker : adapters) {
    for (const std::string& adapter : of_worker) {
      if (models.has(adapter)) continue;
      JsonWriter json;
      json.begin_object().field("id", adapter).field("object", "model").field("owned_by", "kvist");
      json.field("parent", model).end_object();
      models.add({.id = adapter, .json = json.take(), .max_model_len = 0});
    }
  }
}

// The model's further names are entries like its own.
void add_aliases(Cards& models, const std::string& model, const std::vector<std::string>& aliases) {
  const auto own = std::ranges::find(models.all(), model, &openai::ModelCard::id);
  if (own == models.all().end()) return;
  const std::uint32_t max_model_len = own->max_model_len;
  for (const std::string& alias : aliases) {
    JsonWriter json;
    json.begin_object().field("id", alias).field("object", "model").field("owned_by", "kvist").field("root", model);
    if (max_model_len != 0) json.field("max_model_len", max_model_len);
    json.end_object();
    models.add({.id = alias, .json = json.take(), .max_model_len = max_model_len});
  }
}

// The gateway's own entry for its model, used if no worker gives one.
Cards own_card(const std::string& model, std::uint32_t max_model_len, double created) {
  Cards cards;
  auto own = openai::parse_model_list(openai::model_list({model}, static_cast<std::int64_t>(created), max_model_len));
  if (own)
    for (openai::ModelCard& card : *own) cards.add(std::move(card));
  return cards;
}

// The first answer of this kind.
std::optional<net::HttpResponse> first_answer(const std::vector<Result<net::HttpResponse>>& answers, bool refusal) {
  const auto found = std::ranges::find_if(
      answers, [refusal](const auto& answer) { return answer && (answer->status != kOk) == refusal; });
  return found == answers.end() ? std::nullopt : std::optional(**found);
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

net::HttpResponse ModelList::Finished::answer(const std::optional<std::string>& model) const {
  if (!model || list.status != kOk) return list;
  const auto found = std::ranges::find(cards, *model, &openai::ModelCard::id);
  if (found == cards.end())
    return error_answer(
        {ErrorCode::kNotFound,
         fmt::format("model: {} does not exist; GET /v1/models lists those that do", in_quotes(*model))});
  return {.status = list.status, .headers = list.headers, .body = found->json};
}

// Where workers get clients' credentials, in whatever fields these are, a list is for those with the same fields.
std::string ModelList::key_of(const net::HttpRequest& question) const {
  std::string key;
  if (!shared_->spec.pass_client_keys) return key;
  for (const auto& [name, value] : question.headers.fields()) key += fmt::format("\n{}: {}", name, value);
  return key;
}

// Without the request's query, which is no part of this API: with it, anybody could have all workers asked all the
// time.
net::HttpRequest ModelList::question_of(const net::HttpRequest& request) const {
  const Credentials credentials = shared_->spec.pass_client_keys ? Credentials::kPass : Credentials::kKeep;
  net::HttpRequest question{.method = "GET",
                            .target = "/v1/models",
                            .headers = headers_for_worker(request.headers, "", credentials),
                            .body = {}};
  question.headers.remove(kRequestIdHeader);
  return question;
}

bool ModelList::holds(TimePoint began, const std::shared_ptr<const ModelNames>& names) const {
  return net::now() - began < kHolds && names == models_->names();
}

void ModelList::answer(const net::HttpRequest& request, const std::shared_ptr<net::HttpExchange>& exchange,
                       KeyLease lease) {
  std::optional<std::string> model = model_of_path(request.path());
  const net::HttpRequest question = question_of(request);
  std::string key = key_of(question);
  if (last_ && last_->key == key && holds(last_->began, last_->names)) return exchange->respond(last_->answer(model));
  const auto same = std::ranges::find_if(
      rounds_, [&](const auto& round) { return round->key == key && holds(round->began, round->names); });
  if (same == rounds_.end() ? rounds_.size() >= kMaxRounds : waiting_ >= kMaxWaiting)
    return exchange->respond(error_answer({ErrorCode::kUnavailable, "too many lists of models are being made"}));
  const std::shared_ptr<Round> round = same == rounds_.end() ? begin(question, std::move(key)) : *same;
  ++waiting_;
  round->waiting.push_back({.exchange = exchange, .model = std::move(model), .lease = std::move(lease)});
  if (round->open == 0) return finish(round);
  exchange->on_client_gone([this, weak = std::weak_ptr<Round>(round), left = exchange.get()] {
    if (const auto still = weak.lock()) leave(still, left);
  });
}

std::shared_ptr<ModelList::Round> ModelList::begin(const net::HttpRequest& question, std::string key) {
  const auto round =
      std::make_shared<Round>(Round{.key = std::move(key), .began = net::now(), .names = models_->names()});
  for (ServedModel* const model : models_->all())
    if (!model->leaves) ask(*model, question, round);
  rounds_.insert(round);
  return round;
}

void ModelList::leave(const std::shared_ptr<Round>& round, const net::HttpExchange* exchange) {
  waiting_ -=
      std::erase_if(round->waiting, [exchange](const Round::Waiting& each) { return each.exchange.get() == exchange; });
  if (round->waiting.empty()) rounds_.erase(round);
}

void ModelList::ask(ServedModel& model, const net::HttpRequest& question, const std::shared_ptr<Round>& round) {
  const ModelParts& parts = model.parts;
  Round::Asked& asked =
      round->asked.emplace_back(parts.spec.model, parts.spec.model_aliases, parts.models.longest_context());
  for (std::uint32_t i = 0; i < parts.fleet.size(); ++i)
    asked.adapters.push_back(parts.models.worker(WorkerId(i)).adapters);
  asked.answers.resize(parts.fleet.size(), fail(ErrorCode::kUnavailable, "not asked"));
  for (std::uint32_t i = 0; i < parts.fleet.size(); ++i) {
    if (!parts.fleet.views()[i].available) continue;
    ++round->open;
    round->calls.push_back(
        shared_->client.fetch(parts.upstreams[i].url, question, kTimeout,
                              [this, i, &asked, weak = std::weak_ptr<Round>(round)](Result<net::HttpResponse> got) {
                                const auto still = weak.lock();
                                if (!still) return;
                                asked.answers[i] = std::move(got);
                                if (--still->open == 0) finish(still);
                              }));
  }
}

void ModelList::finish(const std::shared_ptr<Round>& round) {
  rounds_.erase(round);
  last_ = std::make_shared<const Finished>(merge(*round));
  // Whoever is answered may ask again at once.
  const std::vector<Round::Waiting> waiting = std::exchange(round->waiting, {});
  waiting_ -= waiting.size();
  for (const Round::Waiting& each : waiting) each.exchange->respond(last_->answer(each.model));
}

ModelList::Finished ModelList::merge(Round& round) const {
  Cards cards;
  std::optional<net::HttpResponse> answer;
  const bool single = round.asked.size() == 1;
  const auto is_anothers = [&](const Round::Asked& asked, const std::string& id) {
    return std::ranges::any_of(round.asked, [&](const Round::Asked& other) {
      return &other != &asked && (other.name == id || std::ranges::find(other.aliases, id) != other.aliases.end());
    });
  };
  for (Round::Asked& asked : round.asked) {
    auto list = merged(asked.answers, asked.adapters);
    if (!answer && list) answer = first_answer(asked.answers, false);
    if (!list && single) answer = first_answer(asked.answers, true);
    if (!list) list = own_card(asked.name, asked.max_model_len, shared_->started_unix_s);
    add_aliases(*list, asked.name, asked.aliases);
    add_adapters(*list, asked.name, asked.adapters);
    for (openai::ModelCard& card : list->all())
      if (!is_anothers(asked, card.id)) cards.add(std::move(card));
  }
  if (answer) {
    answer->headers = headers_for_client(std::move(answer->headers), "", "");
    answer->headers.remove(kRequestIdHeader);
  }
  net::HttpResponse list = answer ? *std::move(answer) : json_answer("");
  if (list.status == kOk) list.body = openai::model_list(cards.all());
  return {.key = std::move(round.key),
          .began = round.began,
          .names = std::move(round.names),
          .list = std::move(list),
          .cards = std::move(cards.all())};
}

}  // namespace kvist::gateway

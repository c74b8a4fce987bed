#include "kvist/loadgen/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "kvist/loadgen/kept_places.h"
#include "kvist/loadgen/refusal_watch.h"
#include "loadgen/service_fixture.h"

namespace kvist::loadgen::service_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using workload::TurnOutcome;
using workload::TurnSample;

class ServiceTest : public ServiceFixture {
 protected:
  /// Breaks an answer off once the client has had time to read what was written: a reset may overtake the bytes.
  void abort_later(std::shared_ptr<net::HttpExchange> exchange) {
    auto timer = std::make_shared<net::Timer>(loop_);
    timer->arm(net::now() + milliseconds(30), [timer, exchange] { exchange->abort(); });
  }
};

TEST_F(ServiceTest, SamplesHoldWhatTheServerSent) {
  serve([](std::size_t, auto exchange) { answer(*exchange, {"Once", " upon", " a time."}); });
  start(4);
  await([&] { return server_->requests().size() >= 12; });
  stop(true);
  const std::vector<TurnSample> samples = take_samples();
  EXPECT_EQ(samples.size(), requests_seen());
  std::set<std::uint64_t> conversations;
  for (const TurnSample& sample : samples) {
    conversations.insert(sample.conversation.value());
    EXPECT_EQ(sample.outcome, TurnOutcome::kSucceeded) << sample.error;
    EXPECT_EQ(sample.turn, 0U);
    EXPECT_EQ(sample.worker, "worker-7");
    EXPECT_EQ(sample.predicted_cached_tokens, 96U);
    EXPECT_EQ(sample.prompt_tokens, 100U);
    EXPECT_EQ(sample.cached_tokens, 64U);
    EXPECT_EQ(sample.completion_tokens, 4U);
    EXPECT_EQ(sample.chunks, 3U);
    EXPECT_EQ(sample.gaps_ms.size(), 2U);
    EXPECT_LE(sample.intended, sample.sent);
    EXPECT_LT(sample.sent, sample.first_token);
    EXPECT_LE(sample.first_token, sample.last_token);
    EXPECT_LE(sample.last_token, sample.ended);
  }
  EXPECT_EQ(conversations.size(), samples.size());
  EXPECT_TRUE(take_samples().empty());  // the service keeps none
}

TEST_F(ServiceTest, RequestsAskForAStreamWithUsageAndCarryTheWorkload) {
  serve([](std::size_t, auto exchange) { answer(*exchange, {"x"}); });
  start(1);
  await([&] { return !server_->requests().empty(); });
  stop(true);
  const net::HttpRequest request = on_loop([&] { return server_->requests().front(); });
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.target, "/v1/chat/completions");
  EXPECT_EQ(request.headers.find("Content-Type"), "application/json");
  EXPECT_EQ(request.headers.find("X-Request-Id"), "loadgen-1-0-0");
  EXPECT_EQ(request.headers.find("X-Session-ID"), "1-0");
  const Result<openai::ChatRequest> chat = openai::parse_chat_request(request.body);
  ASSERT_TRUE(chat.has_value()) << chat.error().message;
  EXPECT_EQ(chat->options.model, "test-model");
  EXPECT_TRUE(chat->options.stream);
  EXPECT_TRUE(chat->options.include_usage);
  EXPECT_EQ(chat->options.max_tokens, 33U);
  EXPECT_TRUE(chat->options.seed.has_value());
  ASSERT_EQ(chat->messages.size(), 1U);
  EXPECT_GE(chat->messages[0].content.size(), 40U);
}

TEST_F(ServiceTest, ATraceIsReplayedRequestByRequest) {
  auto trace = std::make_shared<workload::Trace>();
  for (std::uint32_t i = 0; i < 20; ++i) {
    trace->requests.push_back({std::chrono::milliseconds(i), 600 + i, 10 + i, {1, 100 + i}});
  }
  options_.workload.trace.file = "trace.jsonl";
  options_.input.trace = trace;
  serve([](std::size_t, auto exchange) { answer(*exchange, {"x"}); });
  start(1);
  await([&] { return server_->requests().size() >= 20; });
  stop(true);
  EXPECT_EQ(take_samples().size(), 20U);
  ASSERT_EQ(requests_seen(), 20U);
  std::map<std::string, std::string> bodies;
  on_loop([&] {
    for (const net::HttpRequest& r : server_->requests()) bodies[std::string(*r.headers.find("X-Request-Id"))] = r.body;
  });
  for (std::uint32_t i = 0; i < 20; ++i) {
    const auto chat = openai::parse_chat_request(bodies.at("loadgen-1-" + std::to_string(i) + "-0"));
    ASSERT_TRUE(chat.has_value()) << chat.error().message;
    EXPECT_TRUE(chat->options.ignore_eos);
    EXPECT_EQ(chat->options.max_tokens, 10 + i);
    EXPECT_EQ(chat->messages.at(0).content.size(), 600 + i - 19);  // the rest is the chat template
  }
}

TEST_F(ServiceTest, ATraceThatWasNotLoadedIsRefused) {
  options_.target_url = "http://127.0.0.1:1";
  options_.workload.trace.file = "trace.jsonl";
  const auto error = on_loop([&] { return Service::create(loop_, options_).error().message; });
  EXPECT_NE(error.find("trace.jsonl has not been loaded"), std::string::npos) << error;
}

TEST_F(ServiceTest, EachTurnCarriesTheLiveRepliesOfItsConversation) {
  options_.workload.turns_min = options_.workload.turns_max = 3;
  // The reply names the request, so that histories can be checked against what was really answered.
  serve([](std::size_t index, auto exchange) { answer(*exchange, {"reply ", std::to_string(index)}); });
  start(2);
  await([&] { return server_->requests().size() >= 18; });
  stop(true);
  std::map<std::string, std::vector<std::string>> replies_by_conversation;  // in order
  on_loop([&] {
    for (std::size_t i = 0; i < server_->requests().size(); ++i) {
      const std::string id(*server_->requests()[i].headers.find("X-Request-Id"));
      std::vector<std::string>& replies = replies_by_conversation[id.substr(0, id.rfind('-'))];
      const auto chat = openai::parse_chat_request(server_->requests()[i].body).value();
      EXPECT_EQ(chat.messages.size(), 2 * replies.size() + 1);
      for (std::size_t turn = 0; turn < replies.size(); ++turn) {
        EXPECT_EQ(chat.messages[2 * turn + 1].role, "assistant");
        EXPECT_EQ(chat.messages[2 * turn + 1].content, replies[turn]);
      }
      replies.push_back("reply " + std::to_string(i));
    }
  });
  EXPECT_GE(replies_by_conversation.size(), 6U);
  for (const auto& [conversation, replies] : replies_by_conversation) EXPECT_LE(replies.size(), 3U);
}

TEST_F(ServiceTest, FailuresAreRecordedWithTheirCause) {
  const std::vector<std::string> causes = {"HTTP 503: no worker",       "error frame: engine died",
                                           "broke off its answer",      "the stream ended without [DONE]",
                                           "got application/json",      "not valid JSON",
                                           "the answer had no content", "HTTP 500: plain text"};
  serve([this](std::size_t index, auto exchange) {
    net::HttpResponse response;
    switch (index % 8) {
      case 0:
        response.status = 503;
        response.body = R"({"error":{"message":"no worker","type":"x","param":null,"code":null}})";
        return exchange->respond(response);
      case 1:
        begin_stream(*exchange);
        exchange->write(sse(openai::text_chunk(answer_head(), 0, "half")));
        exchange->write(sse(R"({"error":{"message":"engine died"}})"));
        return exchange->end_stream();
      case 2:
        begin_stream(*exchange);
        exchange->write(sse(openai::text_chunk(answer_head(), 0, "half")));
        return abort_later(exchange);
      case 3:
        begin_stream(*exchange);
        exchange->write(sse(openai::text_chunk(answer_head(), 0, "half")));
        return exchange->end_stream();
      case 4:
        response.headers.add("Content-Type", "application/json");
        response.body = "{}";
        return exchange->respond(response);
      case 5:
        begin_stream(*exchange);
        exchange->write("data: {\"choices\":\n\n");
        return exchange->end_stream();
      case 6:
        return answer(*exchange, {});
      default:
        response.status = 500;
        response.body = "plain text";
        return exchange->respond(response);
    }
  });
  start(1);
  await([&] { return server_->requests().size() >= 16; });
  stop(true);
  const std::vector<TurnSample> samples = take_samples();
  ASSERT_EQ(samples.size(), requests_seen());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    EXPECT_EQ(samples[i].outcome, TurnOutcome::kFailed);
    EXPECT_NE(samples[i].error.find(causes[i % 8]), std::string::npos) << i << ": " << samples[i].error;
  }
  EXPECT_DOUBLE_EQ(on_loop([&] { return service_->snapshot(); }).error_pct, 100);
}

TEST_F(ServiceTest, TheTypeOfAStreamIsReadInAnyCase) {
  serve([](std::size_t, auto exchange) {
    begin_stream(*exchange, "Text/Event-Stream; charset=utf-8");
    exchange->write(sse(openai::text_chunk(answer_head(), 0, "x")) + "data: [DONE]\n\n");
    exchange->end_stream();
  });
  start(1);
  await([this] { return service_->recorder().totals().turns_succeeded >= 2; });
  EXPECT_EQ(on_loop([this] { return service_->recorder().totals().turns_failed; }), 0U);
}

TEST_F(ServiceTest, ARequestWithoutAnAnswerFailsAfterTheTimeOut) {
  options_.workload.request_timeout = milliseconds(1'500);  // every request is sent in time
  serve([](std::size_t index, auto exchange) {
    begin_stream(*exchange);
    if (index > 0) exchange->write(sse(openai::text_chunk(answer_head(), 0, "half")));
  });
  start(2);
  await([&] { return server_->clients_gone() >= 4; });
  stop(true);
  const std::vector<TurnSample> samples = take_samples();
  EXPECT_EQ(samples.size(), requests_seen());
  for (const TurnSample& sample : samples) {
    EXPECT_EQ(sample.outcome, TurnOutcome::kFailed);
    EXPECT_EQ(sample.error, "no whole answer within 1.5 s");
    // The limit counts from the turn's beginning; on a busy machine connecting and sending take some of it.
    EXPECT_GE(sample.ended - sample.intended, milliseconds(1'499));
  }
}

TEST_F(ServiceTest, ATargetThatIsNotThereIsAFailureNotAnEnd) {
  options_.target_url = "http://127.0.0.1:1";
  serve([](std::size_t, auto) {});
  start(2);
  std::vector<TurnSample> samples;
  await([&] {
    for (TurnSample& sample : service_->take_samples()) samples.push_back(std::move(sample));
    return samples.size() >= 5;
  });
  stop(true);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    EXPECT_EQ(samples[i].outcome, TurnOutcome::kFailed);
    EXPECT_NE(samples[i].error.find("cannot connect"), std::string::npos) << samples[i].error;
    if (i >= 2) {
      EXPECT_GE(samples[i].handed - samples[i - 2].ended, KeptPlaces::kPause) << "two at once, each after a pause";
    }
  }
}

TEST_F(ServiceTest, NeverMoreInFlightThanTheConcurrency) {
  serve([](std::size_t, auto) {});  // no answer at all
  start(5);
  await([&] { return server_->requests().size() >= 5; });
  // Further slots pass while all places are taken.
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(requests_seen(), 5U);
  EXPECT_EQ(on_loop([&] { return service_->in_flight(); }), 5U);
  stop(false);
}

TEST_F(ServiceTest, RaisingTheLimitAddsConversations) {
  serve([](std::size_t, auto) {});  // no answer at all
  const auto raise = [&](std::uint32_t concurrency) { return on_loop([&] { return service_->raise(concurrency); }); };
  start(2);
  await([&] { return server_->requests().size() >= 2; });
  EXPECT_EQ(raise(1).error().code, ErrorCode::kInvalidArgument) << "nobody is sent away";
  ASSERT_TRUE(raise(5));
  await([&] { return server_->requests().size() >= 5; });
  EXPECT_EQ(on_loop([&] { return service_->in_flight(); }), 5U);
  EXPECT_EQ(on_loop([&] { return server_->clients_gone(); }), 0U);
  stop(false);
  EXPECT_EQ(raise(6).error().code, ErrorCode::kInvalidArgument) << "nothing runs any more";
}

TEST_F(ServiceTest, AbandoningClosesEveryConnectionAndSendsNothingMore) {
  serve([](std::size_t, auto exchange) {
    begin_stream(*exchange);
    exchange->write(sse(openai::text_chunk(answer_head(), 0, "half")));
  });
  start(6);
  await([&] { return service_->snapshot().output_tokens_per_s * 60 > 5.5; });  // all six have their first token
  stop(false);
  await([&] { return server_->clients_gone() == 6; });
  EXPECT_EQ(requests_seen(), 6U);
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(requests_seen(), 6U);
  const std::vector<TurnSample> samples = take_samples();
  ASSERT_EQ(samples.size(), 6U);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    EXPECT_EQ(samples[i].outcome, TurnOutcome::kAbandoned);
    EXPECT_EQ(samples[i].conversation, ConversationId(i));
    EXPECT_EQ(samples[i].chunks, 1U);
    EXPECT_TRUE(samples[i].error.empty());
  }
  const workload::Snapshot snapshot = on_loop([&] { return service_->snapshot(); });
  EXPECT_DOUBLE_EQ(snapshot.turns_per_s, 0);
  EXPECT_DOUBLE_EQ(snapshot.error_pct, 0);
}

TEST_F(ServiceTest, DrainingLetsTurnsEndButStartsNoneAfterThem) {
  options_.workload.turns_min = options_.workload.turns_max = 3;
  serve([](std::size_t, auto exchange) {
    begin_stream(*exchange);
    exchange->write(sse(openai::text_chunk(answer_head(), 0, "half")));
  });
  start(3);
  await([&] { return server_->requests().size() == 3; });
  std::promise<void> stopped;
  on_loop([&] { service_->stop(true, [&] { stopped.set_value(); }); });
  auto done = stopped.get_future();
  EXPECT_EQ(done.wait_for(milliseconds(50)), std::future_status::timeout);  // three are still in flight
  on_loop([&] {
    for (std::size_t i = 0; i < 3; ++i) {
      server_->exchange(i).write(sse(openai::text_chunk(answer_head(), 0, " whole")) + "data: [DONE]\n\n");
      server_->exchange(i).end_stream();
    }
  });
  ASSERT_EQ(done.wait_for(seconds(100)), std::future_status::ready);
  EXPECT_EQ(on_loop([&] { return service_->in_flight(); }), 0U);
  EXPECT_EQ(requests_seen(), 3U);
  const std::vector<TurnSample> samples = take_samples();
  ASSERT_EQ(samples.size(), 3U);
  for (const TurnSample& sample : samples) EXPECT_EQ(sample.outcome, TurnOutcome::kSucceeded);
}

TEST_F(ServiceTest, AStopThatDrainsCanBeTurnedIntoOneThatAbandons) {
  serve([](std::size_t, auto) {});
  start(2);
  await([&] { return server_->requests().size() == 2; });
  std::promise<void> drained;
  on_loop([&] { service_->stop(true, [&] { drained.set_value(); }); });
  stop(false);
  EXPECT_EQ(drained.get_future().wait_for(seconds(100)), std::future_status::ready);
  EXPECT_EQ(take_samples().size(), 2U);
}

TEST_F(ServiceTest, CanStartAgainOnceStoppedAndNotBefore) {
  serve([](std::size_t, auto exchange) { answer(*exchange, {"x"}); });
  stop(true);  // while idle: at once
  start(2);
  EXPECT_EQ(on_loop([&] { return service_->start(2, 1); }).error().code, ErrorCode::kInvalidArgument);
  await([&] { return server_->requests().size() >= 4; });
  stop(true);
  start(2, 9);
  EXPECT_TRUE(take_samples().size() <= 2);  // those of the first run are gone
  await([&] { return server_->requests().size() >= 12; });
  stop(true);
  for (const TurnSample& sample : take_samples()) EXPECT_EQ(sample.outcome, TurnOutcome::kSucceeded);
}

TEST_F(ServiceTest, BothArmsOfAComparisonSendTheSameRequests) {
  const auto first_bodies = [this](std::uint64_t seed) {
    const std::size_t before = requests_seen();
    start(1, seed);
    await([&] { return server_->requests().size() >= before + 5; });
    stop(true);
    return on_loop([&] {
      std::vector<std::string> bodies;
      for (std::size_t i = before; i < before + 5; ++i) bodies.push_back(server_->requests()[i].body);
      return bodies;
    });
  };
  serve([](std::size_t, auto exchange) { answer(*exchange, {"x"}); });
  const std::vector<std::string> one = first_bodies(3);
  EXPECT_EQ(one, first_bodies(3));
  EXPECT_NE(one, first_bodies(4));
}

TEST_F(ServiceTest, WatchesItsOwnLoop) {
  serve([](std::size_t, auto exchange) { answer(*exchange, {"x"}); });
  start(1);
  await([&] { return server_->requests().size() >= 2; });
  on_loop([&] {
    std::this_thread::sleep_for(milliseconds(60));  // a stall of the client's thread
  });
  await([&] { return service_->client_load().loop_delay_max_ms >= 45; });
  stop(true);
  const ClientLoad load = on_loop([&] { return service_->client_load(); });
  EXPECT_GT(load.cpu_seconds, 0);
  EXPECT_GE(load.loop_delay_max_ms, load.loop_delay_p99_ms);
  EXPECT_GE(load.loop_stalls, 1U);
  EXPECT_GE(load.loop_stalled_ms, 45);
}

ScriptedServer::Script refusing(int status, std::size_t but = ~std::size_t{0}) {
  return [status, but](std::size_t index, const std::shared_ptr<net::HttpExchange>& exchange) {
    if (index == but) return answer(*exchange, {"x"});
    exchange->respond({.status = status, .headers = {}, .body = R"({"error":{"message":"not this one"}})"});
  };
}

TEST_F(ServiceTest, GivesALoadUpThatIsRefusedAsSuch) {
  for (const int status : {401, 403, 404}) {
    options_.target_url.clear();
    serve(refusing(status));
    std::promise<void> ended;
    on_loop([&] { service_->on_ended([&] { ended.set_value(); }); });
    start(1);
    ASSERT_EQ(ended.get_future().wait_for(seconds(100)), std::future_status::ready);
    EXPECT_EQ(requests_seen(), RefusalWatch::kAnswers);
    const std::string why = on_loop([&] { return service_->given_up().value_or(""); });
    EXPECT_NE(why.find(fmt::format("HTTP {}: not this one; check the {}", status, status == 404 ? "model" : "API key")),
              std::string::npos)
        << why;
    EXPECT_EQ(take_samples().size(), RefusalWatch::kAnswers);
    on_loop([&] { service_.reset(); });
  }
}

TEST_F(ServiceTest, DoesNotGiveUpWhatAnyOtherAnswerShowsToBeServed) {
  serve(refusing(404, RefusalWatch::kAnswers - 1));
  start(1);
  await([&] { return server_->requests().size() >= 3UL * RefusalWatch::kAnswers; });
  EXPECT_EQ(on_loop([&] { return service_->given_up(); }), std::nullopt);
  stop(true);
}

TEST_F(ServiceTest, DoesNotGiveUpAServerThatIsFull) {
  serve(refusing(429));
  start(1);
  await([&] { return server_->requests().size() >= 3UL * RefusalWatch::kAnswers; });
  stop(true);
}

TEST_F(ServiceTest, CreateRefusesWhatCannotBeDriven) {
  const auto refused = [this](ServiceOptions options) {
    return on_loop([&] {
      auto service = Service::create(loop_, std::move(options));
      return service ? std::string("accepted") : service.error().message;
    });
  };
  options_.target_url = "http://127.0.0.1:1/";
  EXPECT_EQ(refused(options_), "accepted");
  ServiceOptions options = options_;
  options.target_url = "ftp://127.0.0.1";
  EXPECT_NE(refused(options).find("expected http://host:port"), std::string::npos);
  options.target_url = "http://127.0.0.1:1/v1";
  EXPECT_NE(refused(options).find("expected http://host:port"), std::string::npos);
  options = options_;
  options.model.clear();
  EXPECT_EQ(refused(options), "model: missing");
  options = options_;
  options.workload.turns_min = 9;
  EXPECT_NE(refused(options).find("turns_min"), std::string::npos);
}

TEST_F(ServiceTest, WithoutUsageAnswersCountByTheTokenizer) {
  options_.count_tokens = [](std::string_view text) { return static_cast<std::uint32_t>(text.size()); };
  serve([](std::size_t index, auto exchange) { answer(*exchange, {"abcd", "efg"}, index % 2 == 0); });
  start(1);
  await([&] { return server_->requests().size() >= 4; });
  stop(true);
  const std::vector<TurnSample> samples = take_samples();
  ASSERT_GE(samples.size(), 2U);
  EXPECT_EQ(samples[0].output_tokens(), 3U);  // by usage
  EXPECT_EQ(samples[1].output_tokens(), 7U);
  EXPECT_FALSE(samples[1].has_usage());
}

TEST_F(ServiceTest, WhatIsPreparedIsUsedByTheLoadOfThatSeed) {
  options_.workload.prefix_groups = 2;
  options_.workload.prefix_tokens = 50;
  serve([](std::size_t, auto exchange) { answer(*exchange, {"x"}); });
  on_loop([&] { ASSERT_TRUE(service_->prepare(7).has_value()); });
  start(1, 7);
  await([&] { return !server_->requests().empty(); });
  stop(true);
  EXPECT_EQ(on_loop([&] { return server_->requests().front().headers.find("X-Request-Id"); }), "loadgen-7-0-0");
  start(1, 8);  // another seed makes its own
  const std::size_t seen = requests_seen();
  await([&] { return server_->requests().size() > seen; });
  stop(true);
  const auto first_text = [](const net::HttpRequest& request) {
    return openai::parse_chat_request(request.body)->messages.at(0).content.substr(0, 50);
  };
  on_loop([&] { EXPECT_NE(first_text(server_->requests().front()), first_text(server_->requests().back())); });
}

}  // namespace
}  // namespace kvist::loadgen::service_test

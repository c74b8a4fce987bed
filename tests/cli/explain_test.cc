#include <gmock/gmock.h>

#include "command_test.h"
#include "kvist/routing/decision_json.h"
#include "kvist/routing/router.h"

namespace kvist::cli::explain_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ExplainTest : public CommandTest {
 protected:
  // Two requests to so many workers, the first of them finished.
  std::string decisions(spec::RoutingMode mode = spec::RoutingMode::kLeastLoaded, std::size_t workers = 2) const {
    routing::Router router({.model = "m", .workers = workers, .mode = mode});
    const std::vector<routing::WorkerView> fleet(workers, {.available = true, .limits = {}});
    routing::RequestHandle first;
    for (std::uint64_t request = 1; request <= 2; ++request) {
      const auto decision = router.route({.request = RequestId(request),
                                          .name = "r" + std::to_string(request),
                                          .prompt_tokens = 100,
                                          .blocks = nullptr,
                                          .excluded = {}},
                                         fleet, TimePoint(std::chrono::milliseconds(request)));
      EXPECT_TRUE(decision);
      if (request == 1) first = decision->request;
    }
    router.on_first_token(first, TimePoint(std::chrono::milliseconds(13)));
    router.on_progress(first, 5, TimePoint(std::chrono::milliseconds(20)));
    router.on_usage(first, 100, 64);
    router.on_finished(first, true, TimePoint(std::chrono::milliseconds(31)));
    const std::vector<std::string> names = {"gpu-a", "gpu-b"};
    JsonWriter json;
    json.begin_object().field("format", routing::kDecisionsFormat).key("decisions").begin_array();
    for (std::size_t i = 0; i < router.log().size(); ++i) write_decision(json, router.log().newest(i), names);
    json.end_array().end_object();
    return json.take();
  }
};

TEST_F(ExplainTest, ListsDecisionsAndReplaysThem) {
  const Ran ran = kvist({"explain", write("decisions.json", decisions())});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("gpu-a"));
  EXPECT_THAT(ran.out, HasSubstr("2 decisions: 2 decided again the same, 0 otherwise, 0 not recorded in full"));
}

TEST_F(ExplainTest, ShowsOneRequestInFull) {
  const Ran ran = kvist({"explain", write("decisions.json", decisions()), "--request", "r1"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("request r1: decision 1 at 0.001 s, mode least_loaded"));
  EXPECT_THAT(ran.out, HasSubstr("chosen    gpu-a by policy; decided again: same"));
  EXPECT_THAT(ran.out, HasSubstr("completed; first token after 12.0 ms (predicted "));
  EXPECT_THAT(ran.out, HasSubstr("64 prompt tokens cached (predicted 0); 5 output tokens in 0.030 s"));
}

TEST_F(ExplainTest, SaysWhatTheCostsConsistOf) {
  const std::string file = write("decisions.json", decisions(spec::RoutingMode::kKv));
  const Ran ran = kvist({"explain", file, "--request", "r2"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("For each worker 0.50 requests wait for their first token. Costs of up to "));
  EXPECT_THAT(ran.out,
              HasSubstr("count as equal: the deeper cache has the request, then whoever has fewer that wait."));
  EXPECT_THAT(ran.out, HasSubstr("its TTFT"));
  EXPECT_THAT(ran.out, HasSubstr("who decodes"));
}

TEST_F(ExplainTest, SaysTheSameOfAFleetOfWhichSomeAreRecorded) {
  const std::string file = write("decisions.json", decisions(spec::RoutingMode::kKv, 100));
  const Ran ran = kvist({"explain", file, "--request", "r2"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("For each worker 0.01 requests wait for their first token. Costs of up to "));
  EXPECT_THAT(ran.out, HasSubstr("its TTFT"));
  EXPECT_THAT(ran.out, HasSubstr("92 further candidates were not recorded: the recorded ones are the chosen one, those "
                                 "of least cost and, if none of these is without requests, one that is."));
}

TEST_F(ExplainTest, OtherModesHaveNoSuchParts) {
  const Ran ran = kvist({"explain", write("decisions.json", decisions()), "--request", "r2"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, Not(HasSubstr("count as equal")));
}

TEST_F(ExplainTest, FailsIfAReplayedDecisionDiffers) {
  std::string changed = decisions();
  const std::string chosen = "\"chosen\":1";  // the second request's
  changed.replace(changed.find(chosen), chosen.size(), "\"chosen\":0");
  const Ran ran = kvist({"explain", write("decisions.json", changed)});
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.out, HasSubstr("1 otherwise"));
  EXPECT_THAT(ran.err, HasSubstr("kvist explain: 1 of 2 decisions come out otherwise"));
}

TEST_F(ExplainTest, NamesTheProblemOfAFile) {
  const std::string file = write("decisions.json", "{\"format\":\"other\"}");
  EXPECT_THAT(kvist({"explain", file}).err, HasSubstr(file + ": format: expected \"kvist-decisions-1\""));
  EXPECT_THAT(kvist({"explain", folder_ + "/none"}).err, HasSubstr("No such file or directory"));
  const Ran ran = kvist({"explain", write("good.json", decisions()), "--request", "x"});
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.err, HasSubstr("no decision of request \"x\" among 2"));
  EXPECT_EQ(kvist({"explain"}).status, 2);
}

}  // namespace
}  // namespace kvist::cli::explain_test

#include "kvist/perfmodel/coefficients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "kvist/perfmodel/profile.h"
#include "kvist/perfmodel/step_time_model.h"
#include "perfmodel/worker_with_profile.h"

namespace kvist::perfmodel::coefficients_test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

Coefficients carried(const std::string& engine) {
  spec::ProfileSpec profile;
  profile.engine = engine;
  auto coefficients = Coefficients::of(profile);
  EXPECT_TRUE(coefficients.has_value()) << message(coefficients);
  return *coefficients;
}

std::string file_text(const std::string& path) {
  std::ifstream in(std::string(KVIST_SOURCE_DIR) + "/data/profiles/" + path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string error_with(const std::string& from, const std::string& to) {
  return message(Coefficients::parse(replaced(file_text("engines/trtllm.yaml"), from, to), "own.yaml"));
}

TEST(Coefficients, TheBinaryCarriesTheFiles) {
  for (const char* name : {"trtllm", "vllm"}) {
    const auto parsed = Coefficients::parse(file_text(std::string("engines/") + name + ".yaml"), name);
    ASSERT_TRUE(parsed.has_value()) << message(parsed);
    EXPECT_EQ(*parsed, carried(name));
    EXPECT_EQ(parsed->name(), name);
  }
}

TEST(Coefficients, EveryOneHasUnitMeaningAndOrigin) {
  for (const char* name : {"trtllm", "vllm"}) {
    const Coefficients coefficients = carried(name);
    for (const Coefficient& c : coefficients.all()) {
      EXPECT_FALSE(c.unit.empty() || c.meaning.empty() || c.origin.text.empty()) << name << " " << c.name;
      EXPECT_TRUE(c.low <= c.value && c.value <= c.high) << name << " " << c.name;
    }
    EXPECT_THAT(coefficients.free_names(), Not(IsEmpty()));
  }
}

TEST(Coefficients, RoundTrip) {
  for (const char* name : {"trtllm", "vllm"}) {
    Coefficients coefficients = carried(name);
    coefficients.set_name("own-" + coefficients.name());
    coefficients.set_title("a \"quoted\" title: # with signs");
    ASSERT_TRUE(coefficients.set("kv_read.efficiency", 0.1 + 0.2, {OriginKind::kFitted, "own sweep, levels 10, 20"}));
    ASSERT_TRUE(coefficients.set_free("launch.fixed", false));
    const auto read = Coefficients::parse(coefficients.to_yaml(), "own.yaml");
    ASSERT_TRUE(read.has_value()) << message(read) << "\n" << coefficients.to_yaml();
    EXPECT_EQ(*read, coefficients) << coefficients.to_yaml();
  }
}

TEST(Coefficients, AUsersFileReplacesTheShippedOne) {
  Coefficients coefficients = carried("trtllm");
  ASSERT_TRUE(coefficients.set("launch.fixed", 100, {OriginKind::kMeasured, "a stopwatch"}));
  const auto path = std::filesystem::path(testing::TempDir()) / "kvist_own_profile.yaml";
  std::ofstream(path) << coefficients.to_yaml();
  spec::WorkerSpec worker = worker_with_profile();
  const StepLoad load{.sequences = 1, .decode_sequences = 1};
  const Duration before = StepTimeModel::of(worker).value().step_time(load);
  const double launch = carried("trtllm").get("launch.fixed").value();
  worker.profile->file = path.string();
  const Duration after = StepTimeModel::of(worker).value().step_time(load);
  EXPECT_NEAR(to_milliseconds(after - before), 100 - launch, 0.001);
  std::filesystem::remove(path);
}

TEST(Coefficients, SettingIsBounded) {
  Coefficients coefficients = carried("trtllm");
  EXPECT_EQ(coefficients.get("graphs.padding").value(), 0);
  EXPECT_TRUE(coefficients.set("graphs.padding", 1, {}).has_value());
  EXPECT_EQ(coefficients.get("graphs.padding").value(), 1);
  EXPECT_THAT(message(coefficients.set("graphs.padding", 0.5, {})), HasSubstr("is a switch: 0 or 1"));
  EXPECT_THAT(message(coefficients.set("launch.fixed", -1, {})), HasSubstr("launch.fixed = -1 is out of range"));
  EXPECT_THAT(message(coefficients.set("launch.fixed", std::nan(""), {})), HasSubstr("out of range"));
  EXPECT_THAT(message(coefficients.get("launch")),
              AllOf(HasSubstr("no coefficient \"launch\""), HasSubstr("launch.fixed")));
  EXPECT_THAT(message(coefficients.set_free("graphs.padding", true)), HasSubstr("nothing to fit"));
}

TEST(Coefficients, ErrorsNameLineAndWhatWouldBeRight) {
  EXPECT_THAT(error_with("launch:", "lunch:"), AllOf(StartsWith("own.yaml:"), HasSubstr("\"launch\" is missing")));
  EXPECT_THAT(error_with("  intake:", "  intakes:"),
              AllOf(HasSubstr("mechanisms.intakes: unknown key"), HasSubstr("intake")));
  EXPECT_THAT(error_with("unit: B,", "unit: GB,"), HasSubstr("expected B, got \"GB\""));
  EXPECT_THAT(error_with("padding: false", "padding: maybe"), HasSubstr("graphs.padding: "));
  EXPECT_THAT(error_with("[1-32, 64, 128]", "[1-32, 16]"), HasSubstr("batch sizes must ascend"));
  EXPECT_THAT(error_with("[1-32, 64, 128]", "[32-1]"), HasSubstr("expected a batch size or a range"));
  EXPECT_THAT(error_with("[1-32, 64, 128]", "[1-9999999999]"), HasSubstr("expected a batch size or a range"));
  EXPECT_THAT(error_with("reserve_to_completion", "lazy"), HasSubstr("expected reserve_to_completion or greedy"));
  EXPECT_THAT(error_with("of_free", "of_some"), HasSubstr("expected of_total or of_free"));
  EXPECT_THAT(error_with("scales_with: layers", "scales_with: heads"),
              HasSubstr("expected nothing, layers or weights"));
  EXPECT_THAT(error_with("origin: \"datasheet: ", "origin: \"hearsay: "),
              AllOf(HasSubstr("\"KIND: TEXT\""), HasSubstr("datasheet"), HasSubstr("extrapolated")));
  EXPECT_THAT(
      message(Coefficients::parse(
          replaced(file_text("engines/vllm.yaml"), "  attention:", "  tiles: {above_x: 3}\n  attention:"), "v")),
      Not(HasSubstr("no error")));
}

TEST(Profiles, AreListedAndDescribed) {
  const auto parts = list_profiles();
  const auto has = [&](const char* kind, const char* name) {
    return testing::Matches(Contains(AllOf(Field(&ProfilePart::kind, kind), Field(&ProfilePart::name, name))))(parts);
  };
  EXPECT_TRUE(has("gpu", "h200") && has("gpu", "h100") && has("engine", "trtllm") && has("engine", "vllm"));
  EXPECT_TRUE(has("model", "llama-3.1-70b-fp8") && has("model", "llama-3.1-8b-fp8") &&
              has("model", "eagle3-llama-70b"));
  const auto description = describe(*worker_with_profile().profile);
  ASSERT_TRUE(description.has_value()) << message(description);
  EXPECT_THAT(description->title, AllOf(HasSubstr("H200"), HasSubstr("70B"), HasSubstr("TensorRT-LLM")));
  EXPECT_THAT(description->costs, Not(IsEmpty()));
  EXPECT_THAT(description->coefficients, Contains(Field(&Coefficient::name, "gpu.bandwidth")));
  EXPECT_THAT(description->coefficients, Contains(Field(&Coefficient::name, "model.layers")));
  EXPECT_THAT(description->coefficients, Contains(Field(&Coefficient::name, "launch.fixed")));
  for (const Coefficient& c : description->coefficients) {
    EXPECT_FALSE(c.unit.empty() || c.origin.text.empty()) << c.name;
  }
}

TEST(Profiles, CombinationsThatWereNotMeasuredSaySo) {
  EXPECT_FALSE(extrapolation(spec::WorkerSpec{}).value().extrapolated());
  for (const char* engine : {"trtllm", "vllm"}) {
    EXPECT_THAT(extrapolation(worker_with_profile(engine)).value().reasons, IsEmpty()) << "the measured one";
    EXPECT_THAT(extrapolation(worker_with_profile(engine, "h100")).value().reasons,
                Contains(HasSubstr("was fitted on h200, not on h100")));
    EXPECT_THAT(extrapolation(worker_with_profile(engine, "h200", "llama-3.1-8b-fp8")).value().reasons,
                Contains(HasSubstr("not with llama-3.1-8b-fp8")));
    EXPECT_THAT(
        extrapolation(worker_with_profile(engine, "h200", "llama-3.1-70b-fp8", 4)).value().reasons,
        AllOf(Contains(HasSubstr("tensor parallel 1, not 4")), Contains(HasSubstr("all_reduce.latency is assumed"))));
  }
}

}  // namespace
}  // namespace kvist::perfmodel::coefficients_test

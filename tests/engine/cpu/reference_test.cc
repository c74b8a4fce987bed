// Logits against an independent implementation: tests/golden/cpu_logits/reference.py, in float64 with PyTorch. Its
// output is kept as golden files, so that a machine without PyTorch compares too.
#include <gmock/gmock.h>
#include <stdlib.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "engine/cpu/tiny_models.h"

namespace kvist::engine::cpu::reference_test {
namespace {

constexpr std::uint32_t kLength = 70;  // five blocks, two spans of attention
constexpr std::array<std::uint32_t, 4> kRows{0, 15, 16, 69};
const std::string kGolden = std::string(KVIST_SOURCE_DIR) + "/tests/golden/cpu_logits/";

/// Of logits with a standard deviation of about 1. Arithmetic in F32 instead of F64 gives the first. Where keys and
/// values are rounded, as the reference's are, one of them may be rounded to the number beside. Weights packed in fewer
/// bits than the file's (8 of 24, or of 11) give the last.
constexpr double kExact = 1e-5;
constexpr double kF16Kv = 5e-4;
constexpr double kBf16Kv = 2e-3;
constexpr double kRoundedWeights = 5e-2;

double bound_of(const TinyModel& model) {
  if (model.file != DataType::kBf16 && model.packed == DataType::kBf16) return kRoundedWeights;
  if (model.kv() == KvType::kF32) return kExact;
  return model.kv() == KvType::kF16 ? kF16Kv : kBf16Kv;
}

std::vector<double> numbers_in(const std::string& text) {
  std::istringstream in(text);
  std::vector<double> out;
  for (double x = 0; in >> x;) out.push_back(x);
  return out;
}

std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string output_of(const std::string& command) {
  std::string out;
  FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return out;
  std::array<char, 4096> piece{};
  for (std::size_t n = 0; (n = std::fread(piece.data(), 1, piece.size(), pipe)) > 0;) out.append(piece.data(), n);
  ::pclose(pipe);
  return out;
}

/// A model's directory as the reference takes it: how keys and values are to be rounded stands behind.
std::string argument(const std::string& folder, const TinyModel& model) {
  const std::string_view kv = model.kv() == KvType::kF32 ? "f32" : model.kv() == KvType::kF16 ? "f16" : "bf16";
  return " " + folder + "=" + std::string(kv);
}

/// The reference's output for some model directories, one after another.
std::string reference_output(const std::string& folders, const std::string& python = "/usr/bin/python3") {
  std::string command = python + " " + kGolden + "reference.py " + std::to_string(kLength);
  for (std::size_t i = 0; i < kRows.size(); ++i) command += (i == 0 ? " " : ",") + std::to_string(kRows[i]);
  return output_of(command + folders);
}

struct Difference {
  double largest = 0;
  double root_mean_square = 0;
  double deviation = 0;  // of the expected logits
};

/// Of the logits of kRows, which `expected` has one after another.
Difference compare(const std::vector<std::vector<float>>& logits, const std::vector<double>& expected) {
  Difference difference;
  std::size_t i = 0;
  for (const std::uint32_t row : kRows) {
    for (const float logit : logits[row]) {
      const double error = std::abs(double{logit} - expected[i]);
      difference.largest = std::max(difference.largest, error);
      difference.root_mean_square += error * error;
      difference.deviation += expected[i] * expected[i];
      ++i;
    }
  }
  difference.root_mean_square = std::sqrt(difference.root_mean_square / static_cast<double>(i));
  difference.deviation = std::sqrt(difference.deviation / static_cast<double>(i));
  return difference;
}

class Reference : public testing::TestWithParam<TinyModel> {};
INSTANTIATE_TEST_SUITE_P(, Reference, testing::ValuesIn(tiny_models()),
                         [](const auto& model) { return model.param.name; });

TEST_P(Reference, LogitsAreThoseOfTheIndependentImplementation) {
  Computation computation(GetParam(), 2);
  const std::string file = kGolden + GetParam().name + ".txt";
  // Set to a Python that has PyTorch, it writes the golden files anew.
  if (const char* const python = ::getenv("KVIST_WRITE_GOLDEN"); python != nullptr)
    std::ofstream(file) << reference_output(argument(computation.folder(), GetParam()), python);
  const std::vector<double> expected = numbers_in(read_file(file));
  ASSERT_EQ(expected.size(), kRows.size() * 97) << file;
  const auto table = Computation::blocks(3, 5);
  const Difference difference = compare(computation.run(prompt(kLength), 0, kLength, table), expected);
  RecordProperty("largest_difference", std::to_string(difference.largest));
  std::printf("%s: largest difference %.2e, root mean square %.2e, of logits around %.2f\n", GetParam().name.c_str(),
              difference.largest, difference.root_mean_square, difference.deviation);
  EXPECT_LT(difference.largest, bound_of(GetParam()));
  EXPECT_GT(difference.deviation, 0.5);
}

TEST(ReferenceOutput, IsWhatTheGoldenFilesHold) {
  const std::string looks = "import importlib.util; print(importlib.util.find_spec(\"torch\") is not None)";
  if (output_of("/usr/bin/python3 -c '" + looks + "'") != "True\n") GTEST_SKIP() << "python3-torch is not installed";
  const ScratchFolder folder;
  std::string folders;
  std::string text;
  for (const TinyModel& model : tiny_models()) {
    ASSERT_TRUE(write_model(model.config(), model.file, 5, folder.path() + "/" + model.name));
    folders += argument(folder.path() + "/" + model.name, model);
    text += read_file(kGolden + model.name + ".txt");
  }
  const std::vector<double> now = numbers_in(reference_output(folders));
  const std::vector<double> golden = numbers_in(text);
  ASSERT_EQ(now.size(), golden.size());
  for (std::size_t i = 0; i < now.size(); ++i) ASSERT_NEAR(now[i], golden[i], 1e-6 * (1 + std::abs(golden[i])));
}

}  // namespace
}  // namespace kvist::engine::cpu::reference_test

#include "kvist/engine/cpu/safetensors.h"

#include <gmock/gmock.h>

#include <cstring>

#include "engine/cpu/scratch_folder.h"
#include "kvist/engine/cpu/checkpoint.h"

namespace kvist::engine::cpu::safetensors_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<std::vector<TensorEntry>> read(const std::string& file) {
  return read_safetensors_header(std::as_bytes(std::span(file)), "test.safetensors");
}

constexpr const char* kTwo =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[8,20]},)"
    R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}  )";

TEST(Safetensors, ReadsTensorsByNameWithTheirPlaces) {
  const auto entries = read(safetensors(kTwo, std::string(20, 'x')));
  ASSERT_TRUE(entries) << entries.error().message;
  ASSERT_EQ(entries->size(), 2U);
  const std::uint64_t data = 8 + std::strlen(kTwo);
  EXPECT_EQ(entries->at(0).name, "a");
  EXPECT_EQ(entries->at(0).type, DataType::kF32);
  EXPECT_EQ(entries->at(0).begin, data);
  EXPECT_EQ(entries->at(1).name, "b");
  EXPECT_THAT(entries->at(1).shape, ElementsAre(2, 3));
  EXPECT_EQ(entries->at(1).end, data + 20);
}

TEST(Safetensors, AFileWithoutTensorsAndATensorWithoutNumbersAreValid) {
  EXPECT_TRUE(read(safetensors("{}", "")));
  EXPECT_TRUE(read(safetensors(R"({"e":{"dtype":"I64","shape":[0,7],"data_offsets":[0,0]}})", "")));
  EXPECT_TRUE(read(safetensors(R"({"scalar":{"dtype":"F16","shape":[],"data_offsets":[0,2]}})", "ab")));
}

struct Hostile {
  const char* what;
  std::string file;
  const char* message;
};

std::string one(const std::string& fields, std::size_t data_bytes) {
  return safetensors("{\"t\":{" + fields + "}}", std::string(data_bytes, 'x'));
}

std::vector<Hostile> hostile_files() {
  std::string cut = safetensors(kTwo, std::string(20, 'x'));
  std::string huge = safetensors(kTwo, "");
  huge[6] = 1;
  std::string deep = "{\"t\":" + std::string(5000, '[') + std::string(5000, ']') + "}";
  return {
      {"empty", "", "begins with the 8-byte length"},
      {"shorter than its length", "1234567", "begins with the 8-byte length"},
      {"header beyond the file", huge, "cut short"},
      {"cut in the header", cut.substr(0, 40), "cut short"},
      {"cut in the data", cut.substr(0, cut.size() - 1), "is not within"},
      {"header beyond its bound", safetensors(std::string(kMaxHeaderBytes + 1, ' '), ""), "at most"},
      {"no header", safetensors("", ""), "begin with '{'"},
      {"white space first", safetensors(" {}", ""), "begin with '{'"},
      {"no JSON", safetensors("{nonsense", ""), "not valid JSON"},
      {"deep", safetensors(deep, ""), "nested more than"},
      {"bad UTF-8", safetensors("{\"\xff\":1}", ""), "not valid JSON"},
      {"no object", safetensors(R"({"t":5})", ""), "expected an object"},
      {"a field too many", one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1)", 4), "exactly"},
      {"a field twice", one(R"("dtype":"F32","shape":[1],"shape":[1])", 4), "given more than once"},
      {"unknown type", one(R"("dtype":"F31","shape":[1],"data_offsets":[0,4])", 4), "\"F31\" is none"},
      {"type is no text", one(R"("dtype":1,"shape":[1],"data_offsets":[0,4])", 4), "dtype: expected a string"},
      {"negative dimension", one(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])", 4), "a whole number"},
      {"fraction", one(R"("dtype":"F32","shape":[1.5],"data_offsets":[0,4])", 4), "a whole number"},
      {"nine dimensions", one(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4])", 4), "more than 8"},
      {"product overflows", one(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])", 0), "2^64"},
      {"a billion numbers", one(R"("dtype":"F32","shape":[1000000000],"data_offsets":[0,4])", 4), "needs 4000000000"},
      {"a billion numbers placed", one(R"("dtype":"F32","shape":[1000000000],"data_offsets":[0,4000000000])", 4),
       "not within"},
      {"backwards", one(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])", 4), "not within"},
      {"three offsets", one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,8])", 4), "more than 2"},
      {"too small for its shape", one(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])", 4), "needs 8 bytes"},
      {"hole at the start", one(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])", 8), "leaves a hole"},
      {"bytes after the last", one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])", 5), "1 bytes after"},
      {"overlap",
       safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                   R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                   std::string(12, 'x')),
       "overlaps another"},
      {"a name twice",
       safetensors(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                   R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                   "xx"),
       "named twice"},
      {"metadata of numbers", safetensors(R"({"__metadata__":{"a":1}})", ""), "expected a string"},
  };
}

TEST(Safetensors, RefusesHostileFilesWithAReason) {
  for (const Hostile& hostile : hostile_files()) {
    const auto entries = read(hostile.file);
    ASSERT_FALSE(entries) << hostile.what;
    EXPECT_EQ(entries.error().code, ErrorCode::kCorrupt) << hostile.what;
    EXPECT_THAT(entries.error().message, HasSubstr(hostile.message)) << hostile.what;
    EXPECT_THAT(entries.error().message, HasSubstr("test.safetensors")) << hostile.what;
  }
}

constexpr const char* kA = R"({"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})";
constexpr const char* kB = R"({"b":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}})";

TEST(Checkpoint, FindsTensorsInOneFile) {
  const ScratchFolder folder;
  folder.write("model.safetensors", safetensors(kA, "12345678"));
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const std::uint64_t shape[] = {1, 2};
  const auto a = checkpoint->tensor("a", shape);
  ASSERT_TRUE(a);
  EXPECT_EQ(std::memcmp(a->bytes.data(), "12345678", 8), 0);

  const std::uint64_t other[] = {2, 1};
  EXPECT_THAT(checkpoint->tensor("a", other).error().message, HasSubstr("shape [1, 2], config.json says [2, 1]"));
  EXPECT_EQ(checkpoint->tensor("c", shape).error().code, ErrorCode::kNotFound);
}

TEST(Checkpoint, FindsTensorsInTheShardsThatTheIndexNames) {
  const ScratchFolder folder;
  folder.write("x-1.safetensors", safetensors(kA, "12345678"));
  folder.write("x-2.safetensors", safetensors(kB, "1234"));
  folder.write("model.safetensors.index.json", R"({"weight_map":{"a":"x-1.safetensors","b":"x-2.safetensors"}})");
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensors(), 2U);
  const std::uint64_t shape[] = {1};
  EXPECT_EQ(checkpoint->tensor("b", shape).error().code, ErrorCode::kUnsupported);
}

TEST(Checkpoint, RefusesAnIndexThatLies) {
  const ScratchFolder folder;
  folder.write("x-1.safetensors", safetensors(kA, "12345678"));
  const std::pair<const char*, const char*> cases[] = {
      {R"({"weight_map":{"b":"x-1.safetensors"}})", "is not in x-1.safetensors"},
      {R"({"weight_map":{"a":"x-3.safetensors"}})", "x-3.safetensors"},
      {R"({"weight_map":{"a":"../x-1.safetensors"}})", "in the same folder"},
      {R"({"weight_map":{"a":"/etc/passwd"}})", "in the same folder"},
      {R"({"weight_map":{"a":"x-1.safetensors","a":"x-1.safetensors"}})", "named twice"},
      {R"({"weight_map":{}})", "names no tensor"},
      {R"({"weight_map":[]})", "expected an object"},
      {"[", "not valid JSON"},
  };
  for (const auto& [index, message] : cases) {
    folder.write("model.safetensors.index.json", index);
    const auto checkpoint = Checkpoint::open(folder.path());
    ASSERT_FALSE(checkpoint) << index;
    EXPECT_THAT(checkpoint.error().message, HasSubstr(message));
  }
  EXPECT_EQ(Checkpoint::open(folder.path() + "/none").error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace kvist::engine::cpu::safetensors_test

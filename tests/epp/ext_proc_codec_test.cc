// The wire form of ext_proc, against messages that Debian's python3-protobuf 3.21 wrote (tests/e2e/ext_proc_client.py
// has their definitions, by Envoy's published field numbers).
#include "kvist/epp/ext_proc_codec.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "kvist/base/random.h"
#include "kvist/epp/wire_reader.h"
#include "kvist/epp/wire_writer.h"

namespace kvist::epp::ext_proc_codec_test {
namespace {

std::uint64_t below(RandomStream& random, std::int64_t bound) {
  return static_cast<std::uint64_t>(random.uniform_int(0, bound - 1));
}

std::string bytes_of(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return bytes;
}

std::string hex_of(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    hex += kDigits[static_cast<unsigned char>(c) >> 4U];
    hex += kDigits[static_cast<unsigned char>(c) & 15U];
  }
  return hex;
}

constexpr std::string_view kRequest =
    "121c0a180a0e0a053a706174681a052f76312f780a060a01611a0162180142aa010a430a08656e766f792e6c6212370a350a25782d67617465"
    "7761792d64657374696e6174696f6e2d656e64706f696e742d736572766564120c1a0a31302e302e302e393a310a630a14656e766f792e6c62"
    "2e7375627365745f68696e74124b0a490a25782d676174657761792d64657374696e6174696f6e2d656e64706f696e742d7375627365741220"
    "321e0a0d1a0b31302e302e302e313a38300a0d1a0b31302e302e302e323a38304a480a1b656e766f792e66696c746572732e687474702e6578"
    "745f70726f6312290a270a15726573706f6e73652e636f64655f64657461696c73120e1a0c7669615f757073747265616d5a0408041001";

TEST(ExtProcCodec, ReadsWhatProtobufWrote) {
  const auto request = read_processing_request(bytes_of(kRequest));
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->part, Part::kRequestHeaders);
  EXPECT_TRUE(request->end_of_stream);
  EXPECT_EQ(request->headers.find(":path"), "/v1/x");
  EXPECT_EQ(request->headers.find("a"), "b");
  ASSERT_TRUE(request->subset);
  EXPECT_EQ(*request->subset, (std::vector<std::string>{"10.0.0.1:80", "10.0.0.2:80"}));
  EXPECT_EQ(request->served, "10.0.0.9:1");
  EXPECT_EQ(request->code_details, "via_upstream");
  ASSERT_TRUE(request->protocol);
  EXPECT_EQ(request->protocol->request_body, BodyMode::kFullDuplexStreamed);
  EXPECT_EQ(request->protocol->response_body, BodyMode::kStreamed);
}

TEST(ExtProcCodec, WritesWhatProtobufWrites) {
  EXPECT_EQ(
      hex_of(write_destination(Part::kRequestHeaders, "1.2.3.4:5,6.7.8.9:10")),
      "0a420a40123c0a3a0a360a1e782d676174657761792d64657374696e6174696f6e2d656e64706f696e741a14312e322e332e343a352c36"
      "2e372e382e393a313018022801424a0a480a08656e766f792e6c62123c2a3a0a380a1e782d676174657761792d64657374696e6174696f"
      "6e2d656e64706f696e7412161a14312e322e332e343a352c362e372e382e393a3130");
  EXPECT_EQ(hex_of(write_immediate({.status = 503, .headers = {{"retry-after", "1"}}, .body = "{}"})),
            "3a280a0308f70312160a140a100a0b72657472792d61667465721a013118021a027b7d2a056b76697374");
  EXPECT_EQ(hex_of(write_body_part(Part::kResponseBody, "data", true)), "220e0a0c1a0a1a080a04646174611001");
  EXPECT_EQ(hex_of(write_continue(Part::kResponseHeaders)), "12020a00");
  EXPECT_EQ(hex_of(write_continue(Part::kRequestTrailers)), "2a00");
}

TEST(ExtProcCodec, AnEmptySubsetIsNotTheSameAsNone) {
  WireWriter list;
  WireWriter value;
  value.message(6, list);
  WireWriter entry;
  entry.bytes(1, kSubsetKey);
  entry.message(2, value);
  WireWriter hints;
  hints.message(1, entry);
  WireWriter space;
  space.bytes(1, kSubsetNamespace);
  space.message(2, hints);
  WireWriter metadata;
  metadata.message(1, space);
  WireWriter request;
  request.message(2, {});
  request.message(8, metadata);
  const auto read = read_processing_request(std::move(request).take());
  ASSERT_TRUE(read);
  ASSERT_TRUE(read->subset);
  EXPECT_TRUE(read->subset->empty());
}

TEST(ExtProcCodec, RefusesWhatIsNoMessage) {
  const struct {
    std::string_view hex;
    std::string_view says;
  } cases[] = {
      {"", "about no part"},
      {"5000", "about no part"},               // observability_mode alone
      {"12", "ends within a number"},          // no length
      {"1205", "5 bytes, and the message 0"},  // a length beyond the end
      {"13", "wire type 3"},                   // a group
      {"00", "the number 0"},
      {"80808080808080808080ff01", "more than 64 bits"},
      {"5a020809", "mode of the number 9"},
  };
  for (const auto& each : cases) {
    const auto read = read_processing_request(bytes_of(each.hex));
    ASSERT_FALSE(read) << each.hex;
    EXPECT_NE(read.error().message.find(each.says), std::string::npos) << each.hex << ": " << read.error().message;
  }
}

TEST(ExtProcCodec, BoundsTheNumberOfHeaderFields) {
  WireWriter map;
  for (std::size_t i = 0; i <= kMostFields; ++i) {
    WireWriter header;
    header.bytes(1, "a");
    map.message(1, header);
  }
  WireWriter headers;
  headers.message(1, map);
  WireWriter request;
  request.message(2, headers);
  const auto read = read_processing_request(std::move(request).take());
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kTooLarge);
}

TEST(ExtProcCodec, HealthQuestionsAndAnswers) {
  EXPECT_EQ(*read_health_request(bytes_of("0a086c6976656e657373")), "liveness");
  EXPECT_EQ(*read_health_request(""), "");
  EXPECT_FALSE(read_health_request("\x0a\x09"));
  EXPECT_EQ(hex_of(write_health_response(true)), "0801");
  EXPECT_EQ(hex_of(write_health_response(false)), "0802");
}

// What the writer wrote, the reader reads: numbers of all lengths, and bytes.
TEST(Wire, FieldsComeBackAsTheyWereWritten) {
  const std::uint64_t seed = 20261125;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  RandomStream random(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::pair<std::uint32_t, std::uint64_t>> fields;
    WireWriter writer;
    for (std::uint64_t i = below(random, 20); i > 0; --i) {
      const auto number = static_cast<std::uint32_t>(1 + below(random, (1 << 29) - 1));
      const std::uint64_t value = random.next() >> below(random, 64);
      fields.emplace_back(number, value);
      if (value % 2 == 0) writer.varint(number, value);
      if (value % 2 == 1) writer.bytes(number, std::string(value % 300, 'x'));
    }
    const std::string bytes = std::move(writer).take();
    WireReader reader(bytes);
    WireField field;
    for (const auto& [number, value] : fields) {
      const auto any = reader.next(field);
      ASSERT_TRUE(any && *any);
      EXPECT_EQ(field.number, number);
      if (value % 2 == 0) {
        EXPECT_EQ(field.value, value);
      }
      if (value % 2 == 1) {
        EXPECT_EQ(field.bytes.size(), value % 300);
      }
    }
    const auto any = reader.next(field);
    ASSERT_TRUE(any);
    EXPECT_FALSE(*any);
    // Every message that is cut short is either a shorter message or refused; nothing is read beyond its end.
    for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
      WireReader shorter(std::string_view(bytes).substr(0, cut));
      std::size_t count = 0;
      Result<bool> next = shorter.next(field);
      for (; next && *next; next = shorter.next(field)) ++count;
      EXPECT_LE(count, fields.size());
    }
  }
}

}  // namespace
}  // namespace kvist::epp::ext_proc_codec_test

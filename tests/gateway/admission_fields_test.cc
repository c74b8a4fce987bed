#include "kvist/gateway/admission_fields.h"

#include <gtest/gtest.h>

namespace kvist::gateway::admission_fields_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

net::HttpRequest with(std::initializer_list<std::pair<std::string_view, std::string_view>> fields) {
  net::HttpRequest request;
  request.method = "POST";
  for (const auto& [name, value] : fields) request.headers.add(std::string(name), std::string(value));
  return request;
}

TEST(AdmissionFields, TheShortestTimeCounts) {
  EXPECT_EQ(read_admission_fields(with({}), 0, nullptr)->first_token_within, Duration(0));
  EXPECT_EQ(read_admission_fields(with({{"x-slo-ttft-ms", "1500"}}), 0, nullptr)->first_token_within,
            milliseconds(1'500));
  EXPECT_EQ(read_admission_fields(with({{"X-SLO-TTFT-MS", "1500"}, {"x-request-timeout", "0.5"}}), 0, nullptr)
                ->first_token_within,
            milliseconds(500));
  EXPECT_EQ(read_admission_fields(with({{"X-Stainless-Timeout", "600.0"}}), 0, nullptr)->first_token_within,
            seconds(600));
  EXPECT_EQ(read_admission_fields(with({{"X-Stainless-Timeout", "1e300"}}), 0, nullptr)->first_token_within,
            seconds(86'400));
}

TEST(AdmissionFields, WhatIsNoTimeIsNamed) {
  for (const char* wrong : {"", "soon", "0", "-1", "nan", "5s", "1,5"}) {
    const auto read = read_admission_fields(with({{"X-SLO-TTFT-MS", wrong}}), 0, nullptr);
    ASSERT_FALSE(read) << wrong;
    EXPECT_EQ(read.error().message, "X-SLO-TTFT-MS has to be a number of milliseconds above 0");
    EXPECT_FALSE(read_admission_fields(with({{"X-Request-Timeout", wrong}}), 0, nullptr));
    EXPECT_TRUE(read_admission_fields(with({{"X-Stainless-Timeout", wrong}}), 0, nullptr)) << "no client asked for it";
  }
}

TEST(AdmissionFields, ThePriorityIsTheFieldsOrTheBodysAndNotBelowTheKeys) {
  EXPECT_EQ(read_admission_fields(with({}), 4, nullptr)->priority, 4);
  EXPECT_EQ(read_admission_fields(with({{"X-Request-Priority", "-2"}}), 4, nullptr)->priority, -2);
  EXPECT_FALSE(read_admission_fields(with({{"X-Request-Priority", "1.5"}}), 0, nullptr));
  const KeyAccount key("alice", "gold", {}, TimePoint{}, {.weight = 3, .priority = -1});
  const auto read = read_admission_fields(with({}), -5, &key);
  EXPECT_EQ(read->priority, -1);
  EXPECT_EQ(read->tenant.weight, 3);
  EXPECT_NE(read->tenant.id, 0U);
  EXPECT_EQ(read->key_class, "gold");
  EXPECT_EQ(read_admission_fields(with({}), 7, &key)->priority, 7);
}

TEST(AdmissionFields, WhatOnlyReadsIsExempt) {
  EXPECT_FALSE(read_admission_fields(with({}), 0, nullptr)->exempt);
  net::HttpRequest list;
  list.method = "GET";
  EXPECT_TRUE(read_admission_fields(list, 0, nullptr)->exempt);
}

}  // namespace
}  // namespace kvist::gateway::admission_fields_test

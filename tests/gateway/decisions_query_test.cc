#include "kvist/gateway/decisions_query.h"

#include <gtest/gtest.h>

namespace kvist::gateway::decisions_query_test {
namespace {

TEST(DecisionsQueryTest, ReadsLimitAndRequest) {
  const auto plain = parse_decisions_query("/admin/decisions");
  EXPECT_EQ(plain->limit, 20U);
  EXPECT_EQ(plain->request, "");
  const auto both = parse_decisions_query("/admin/decisions?request=a%20b%3D%26&&limit=512");
  EXPECT_EQ(both->limit, 512U);
  EXPECT_EQ(both->request, "a b=&");
  EXPECT_EQ(parse_decisions_query("/?request=a=b")->request, "a=b");
  EXPECT_EQ(parse_decisions_query("/?request")->request, "");
}

TEST(DecisionsQueryTest, SaysWhatWouldBeRight) {
  const auto message = [](std::string_view target) { return parse_decisions_query(target).error().message; };
  EXPECT_EQ(message("/?limit=513"), "limit: expected a whole number from 1 to 512, got \"513\"");
  EXPECT_EQ(message("/?limit="), "limit: expected a whole number from 1 to 512, got \"\"");
  EXPECT_EQ(message("/?name=x"), "name: unknown; known are limit, request and model");
  for (const char* cut : {"/?request=%", "/?request=%4", "/?request=%4g&limit=1", "/?request=ab%zz"}) {
    EXPECT_EQ(message(cut), "query: expected two hexadecimal digits after %") << cut;
  }
}

}  // namespace
}  // namespace kvist::gateway::decisions_query_test

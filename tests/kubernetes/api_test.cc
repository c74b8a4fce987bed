// Requests to the API server, and what its refusals mean.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "kvist/kubernetes/answers.h"
#include "kvist/kubernetes/api_error.h"
#include "kvist/kubernetes/api_request.h"
#include "kvist/kubernetes/line_splitter.h"

namespace kvist::kubernetes::api_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Collection kSlices{.resource = kEndpointSlices, .name_space = "ns", .label_selector = "app in (a,b)"};

TEST(ApiRequest, NamesTheCollectionAndEscapesWhatIsGiven) {
  EXPECT_EQ(list(kSlices, 500, "").target,
            "/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices?limit=500&labelSelector=app%20in%20%28a%2Cb%29");
  EXPECT_THAT(list(kSlices, 500, "a&b=c").target, HasSubstr("&continue=a%26b%3Dc"));
  EXPECT_THAT(watch(kSlices, "12").target,
              HasSubstr("?watch=true&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion=12&"));
  const Collection pool{.resource = kInferencePools, .name_space = "ns", .only = "llama"};
  EXPECT_EQ(list(pool, 500, "").target,
            "/apis/inference.networking.k8s.io/v1/namespaces/ns/"
            "inferencepools?limit=500&fieldSelector=metadata.name%3Dllama");
  EXPECT_THAT(may_i("list", pool).body, HasSubstr(R"("name":"llama")")) << "rights may be for one name only";
  EXPECT_EQ(get({.resource = kPods, .name_space = "ns"}, "a/b").target, "/api/v1/namespaces/ns/pods/a%2Fb");
}

TEST(ApiRequest, AppliesWithAManagerOfItsOwn) {
  const net::HttpRequest made = apply({.resource = kDeployments, .name_space = "ns"}, "d", "{}", "kvist");
  EXPECT_EQ(made.method, "PATCH");
  EXPECT_EQ(made.target, "/apis/apps/v1/namespaces/ns/deployments/d?fieldManager=kvist&force=false");
  EXPECT_EQ(made.headers.find("Content-Type"), "application/apply-patch+yaml");
  EXPECT_EQ(made.body, "{}");
}

TEST(ApiRequest, AsksForMetadataOnly) {
  const net::HttpRequest made = list({.resource = kPods, .name_space = "ns", .metadata_only = true}, 1, "");
  EXPECT_EQ(made.headers.find("Accept"), "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
  ASSERT_EQ(made.headers.fields().size(), 1U);
}

ApiError refusal(int status, const std::string& body) {
  return error_of({.status = status, .headers = {}, .body = body});
}

TEST(ApiErrorTest, HasTheKindOfItsStatus) {
  EXPECT_EQ(refusal(401, "Unauthorized").kind, ApiErrorKind::kUnauthorized);
  EXPECT_EQ(refusal(403, "{}").kind, ApiErrorKind::kForbidden);
  EXPECT_EQ(refusal(404, "{}").kind, ApiErrorKind::kNotFound);
  EXPECT_EQ(refusal(409, R"({"reason":"AlreadyExists"})").kind, ApiErrorKind::kConflict);
  EXPECT_EQ(refusal(410, "{}").kind, ApiErrorKind::kExpired);
  EXPECT_EQ(refusal(422, "{}").kind, ApiErrorKind::kInvalid);
  EXPECT_EQ(refusal(503, "").kind, ApiErrorKind::kServerError);
  EXPECT_THAT(to_error(refusal(403, R"({"message":"pods is forbidden"})")).message,
              HasSubstr("the API server: forbidden (403): pods is forbidden"));
}

TEST(ApiErrorTest, NamesTheTimeAfterWhichToTryAgain) {
  const ApiError initializing = refusal(
      429, R"({"kind":"Status","message":"storage is (re)initializing","details":{"retryAfterSeconds":1},"code":429})");
  EXPECT_EQ(initializing.kind, ApiErrorKind::kThrottled);
  EXPECT_EQ(initializing.retry_after, std::chrono::seconds(1));
  net::HttpResponse busy{.status = 429, .headers = {}, .body = "busy"};
  busy.headers.add("Retry-After", "3");
  EXPECT_EQ(error_of(busy).retry_after, std::chrono::seconds(3));
  busy.headers.set("Retry-After", "-3");
  EXPECT_FALSE(error_of(busy).retry_after);
}

TEST(ApiErrorTest, NamesFieldsAndTheirOwners) {
  const ApiError conflict = refusal(
      409, R"({"message":"Apply failed with 1 conflict","reason":"Conflict","code":409,"details":{"causes":[)"
           R"({"reason":"FieldManagerConflict","message":"conflict with \"kubectl\"","field":".spec.replicas"}]}})");
  EXPECT_EQ(conflict.kind, ApiErrorKind::kFieldManagerConflict);
  EXPECT_THAT(conflict.conflicts, ElementsAre(FieldConflict{".spec.replicas", "conflict with \"kubectl\""}));
  EXPECT_THAT(to_error(conflict).message, HasSubstr("; .spec.replicas: conflict with \"kubectl\""));
}

TEST(ReadWatchEvent, RefusesWhatItDoesNotKnow) {
  JsonDocument document;
  EXPECT_THAT(read_watch_event(document, R"({"type":"RENAMED","object":{}})").error().message,
              HasSubstr("expected ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, got \"RENAMED\""));
  EXPECT_FALSE(read_watch_event(document, R"({"type":"ADDED","object":{"metadata":{}}})"));
  EXPECT_FALSE(read_watch_event(document, R"({"type":"ADDED"})"));
  EXPECT_FALSE(read_list_page(document, R"({"metadata":{"resourceVersion":""},"items":[]})"));
}

TEST(ReadListPage, AnEmptyListMayBeNullButNotMissing) {
  JsonDocument document;
  const auto page = read_list_page(document, R"({"metadata":{"resourceVersion":"7"},"items":null})");
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_FALSE(page->items);
  EXPECT_EQ(page->resource_version, "7");
  EXPECT_THAT(read_list_page(document, R"({"metadata":{"resourceVersion":"7"}})").error().message, HasSubstr("items"));
}

TEST(LineSplitterTest, GivesWholeLinesHoweverTheyCome) {
  const std::string text = "one\n\ntwo\nthree";
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    LineSplitter splitter(100);
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < text.size(); i += piece) {
      ASSERT_TRUE(splitter.take(text.substr(i, piece), [&](std::string_view line) {
        lines.emplace_back(line);
        return true;
      }));
    }
    EXPECT_THAT(lines, ElementsAre("one", "two"));
  }
}

TEST(LineSplitterTest, RefusesALineWithoutAnEnd) {
  LineSplitter splitter(10);
  const auto ignore = [](std::string_view) { return true; };
  EXPECT_TRUE(splitter.take("0123456789", ignore));
  const auto refused = splitter.take("x", ignore);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kTooLarge);
}

}  // namespace
}  // namespace kvist::kubernetes::api_test

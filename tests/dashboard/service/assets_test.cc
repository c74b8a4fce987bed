// The page's files: types, compression, tags, and the fields that keep a page from running what it should not.
#include "kvist/dashboard/service/assets.h"

#include <gtest/gtest.h>

#include <string>

namespace kvist::dashboard::assets_test {
namespace {

constexpr Asset kFiles[] = {{"index.html", "text/html; charset=utf-8", "\"1\"", "zip-html", "html"},
                            {"app.js", "text/javascript; charset=utf-8", "\"2\"", "zip-js", "js"}};

net::HttpRequest asking(std::string_view field = "", std::string value = "") {
  net::HttpRequest request{.method = "GET", .target = "/dashboard/", .headers = {}, .body = {}};
  if (!field.empty()) request.headers.add(std::string(field), std::move(value));
  return request;
}

TEST(Assets, AFileIsSentAsTheBrowserTakesIt) {
  EXPECT_EQ(asset_answer(kFiles, "", asking()).body, "html");
  const net::HttpResponse packed = asset_answer(kFiles, "app.js", asking("Accept-Encoding", "deflate, gzip;q=0.5"));
  EXPECT_EQ(packed.body, "zip-js");
  EXPECT_EQ(packed.headers.find("Content-Encoding"), "gzip");
  EXPECT_EQ(packed.headers.find("Content-Type"), "text/javascript; charset=utf-8");
  EXPECT_EQ(asset_answer(kFiles, "app.js", asking("Accept-Encoding", "gzip;q=0")).body, "js");
  EXPECT_EQ(asset_answer(kFiles, "app.js", asking("Accept-Encoding", "gzipped, br")).body, "js");
}

TEST(Assets, WhatTheBrowserHasIsNotSentAgain) {
  const net::HttpResponse same = asset_answer(kFiles, "app.js", asking("If-None-Match", "\"9\", \"2\""));
  EXPECT_EQ(same.status, 304);
  EXPECT_TRUE(same.body.empty());
  EXPECT_EQ(asset_answer(kFiles, "app.js", asking("If-None-Match", "\"1\"")).status, 200);
}

TEST(Assets, EveryAnswerKeepsPagesFromRunningAndLoadingAnythingElse) {
  for (const char* const name : {"index.html", "nothing.js", "../app.js"}) {
    const net::HttpResponse answer = asset_answer(kFiles, name, asking());
    const auto policy = answer.headers.find("Content-Security-Policy");
    ASSERT_TRUE(policy) << name;
    EXPECT_TRUE(policy->starts_with("default-src 'none'; script-src 'self'; ")) << *policy;
    EXPECT_FALSE(policy->contains("unsafe"));
    EXPECT_EQ(answer.headers.find("X-Content-Type-Options"), "nosniff");
  }
  EXPECT_EQ(asset_answer(kFiles, "../app.js", asking()).status, 404);
}

TEST(Assets, TheProgramHasItsPage) {
  const net::HttpResponse page = asset_answer(assets(), "", asking());
  EXPECT_EQ(page.status, 200);
  EXPECT_TRUE(page.body.contains("<html")) << page.body;
  for (const Asset& file : assets()) {
    EXPECT_FALSE(file.plain.empty()) << file.name;
    EXPECT_TRUE(file.gzip.starts_with("\x1f\x8b")) << file.name;
  }
}

}  // namespace
}  // namespace kvist::dashboard::assets_test

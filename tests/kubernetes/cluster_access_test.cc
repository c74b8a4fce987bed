// Kubeconfig files, and what a pod finds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "kvist/kubernetes/cluster_access.h"

namespace kvist::kubernetes::cluster_access_test {
namespace {

using testing::HasSubstr;

Result<ClusterAccess> read(const std::string& yaml, std::string_view context = {}) {
  const auto root = YamlNode::parse(yaml, "config");
  if (!root) return std::unexpected(root.error());
  return read_kubeconfig(*root, "/home/u/.kube", context);
}

std::string config(const std::string& user, const std::string& cluster = "") {
  return "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
         "contexts:\n- {name: other, context: {cluster: k, user: u}}\n"
         "- {name: c, context: {cluster: k, user: u, namespace: llm}}\n"
         "clusters:\n- name: k\n  cluster: {server: 'https://10.0.0.1:6443/k8s/c-1/'" +
         cluster + "}\nusers:\n- {name: u, user: {" + user + "}}\n";
}

TEST(ReadKubeconfig, TakesServerAuthoritiesAndToken) {
  const auto access = read(config("token: secret", ", certificate-authority: ca.crt, tls-server-name: kube"));
  ASSERT_TRUE(access) << access.error().message;
  EXPECT_EQ(access->server, "https://10.0.0.1:6443");
  EXPECT_EQ(access->path_prefix, "/k8s/c-1");
  EXPECT_EQ(access->name_space, "llm");
  EXPECT_EQ(access->ca.file, "/home/u/.kube/ca.crt");
  EXPECT_EQ(access->server_name, "kube");
  EXPECT_EQ(access->token, "secret");
  EXPECT_TRUE(access->verify);
  EXPECT_EQ(read(config("token: secret"), "other")->name_space, "default");
}

TEST(ReadKubeconfig, TakesCertificatesInPlace) {
  const auto access = read(config("client-certificate-data: Y2VydA==, client-key-data: a2V5"));
  ASSERT_TRUE(access) << access.error().message;
  EXPECT_EQ(access->certificate.text, "cert");
  EXPECT_EQ(access->key.text, "key");
}

TEST(ReadKubeconfig, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(read("kind: Config\n").error().message, HasSubstr("current-context is missing"));
  EXPECT_THAT(read(config("token: x"), "none").error().message, HasSubstr("there is no context \"none\""));
  const auto program = read(config("exec: {command: aws}"));
  EXPECT_EQ(program.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(program.error().message, HasSubstr("config:"));
  EXPECT_THAT(read(config("client-certificate: a.pem")).error().message, HasSubstr("belong together"));
  EXPECT_THAT(read(config("client-certificate-data: '*', client-key-data: a2V5")).error().message,
              HasSubstr("expected base64"));
}

TEST(InClusterAccess, ReadsTheTokenAgain) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "service-account";
  std::filesystem::create_directories(folder);
  const auto write = [&](const char* name, const char* text) { std::ofstream(folder / name) << text; };
  write("token", "first\n");
  write("namespace", "llm");
  const Environment pod = [](const std::string& name) -> std::optional<std::string> {
    return name == "KUBERNETES_SERVICE_HOST" ? "fd00::1" : "443";
  };
  const auto access = in_cluster_access(pod, folder.string());
  ASSERT_TRUE(access) << access.error().message;
  EXPECT_EQ(access->server, "https://[fd00::1]:443");
  EXPECT_EQ(access->name_space, "llm");
  EXPECT_EQ(*current_token(*access), "first");
  write("token", "second\n");
  EXPECT_EQ(*current_token(*access), "second");
  std::filesystem::remove(folder / "token");
  EXPECT_FALSE(current_token(*access));
  EXPECT_EQ(in_cluster_access([](const std::string&) { return std::nullopt; }, folder.string()).error().code,
            ErrorCode::kNotFound);
}

TEST(FromBase64, IsStrict) {
  EXPECT_EQ(*from_base64("YWJj\nZGU="), "abcde");
  EXPECT_EQ(*from_base64(""), "");
  for (const char* wrong : {"YWJ", "YW=j", "Y===", "YWJj!"}) EXPECT_FALSE(from_base64(wrong)) << wrong;
}

}  // namespace
}  // namespace kvist::kubernetes::cluster_access_test

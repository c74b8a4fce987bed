#include "kvist/kubernetes/cluster_access.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "kvist/base/input_file.h"

namespace kvist::kubernetes {
namespace {

/// A file without a place on a disk: OpenSSL reads certificates and keys from paths.
class MemoryFile {
 public:
  MemoryFile() = default;
  ~MemoryFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  /// The path of a file with the text. Requires: it is called once.
  [[nodiscard]] Result<std::string> write(const std::string& text) {
    descriptor_ = ::memfd_create("pem", MFD_CLOEXEC);
    if (descriptor_ < 0) return fail(ErrorCode::kInternal, "memfd_create failed");
    std::size_t done = 0;
    while (done < text.size()) {
      const ssize_t written = ::write(descriptor_, text.data() + done, text.size() - done);
      if (written <= 0) return fail(ErrorCode::kInternal, "a memory file cannot be written");
      done += static_cast<std::size_t>(written);
    }
    return fmt::format("/proc/self/fd/{}", descriptor_);
  }

 private:
  int descriptor_ = -1;
};

Result<std::string> path_of(const Pem& pem, MemoryFile& file) {
  if (pem.text.empty()) return pem.file;
  return file.write(pem.text);
}

}  // namespace

Result<std::string> current_token(const ClusterAccess& access) {
  constexpr std::size_t kMostBytes = 64U << 10;
  if (access.token_file.empty()) return access.token;
  KVIST_TRY(std::string token, read_file(access.token_file, kMostBytes));
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r' || token.back() == ' ')) token.pop_back();
  if (token.empty()) return fail(ErrorCode::kInvalidArgument, access.token_file + ": expected a token, got nothing");
  return token;
}

Result<std::shared_ptr<net::TlsClient>> tls_of(const ClusterAccess& access) {
  if (!access.server.starts_with("https://")) return std::shared_ptr<net::TlsClient>();
  MemoryFile ca;
  MemoryFile certificate;
  MemoryFile key;
  net::TlsClientOptions options{.server_name = access.server_name, .verify = access.verify};
  KVIST_TRY(options.ca, path_of(access.ca, ca));
  KVIST_TRY(options.certificate, path_of(access.certificate, certificate));
  KVIST_TRY(options.key, path_of(access.key, key));
  auto client = net::TlsClient::load(std::move(options));
  if (!client) return std::unexpected(std::move(client).error().in("certificates towards " + access.server));
  return client;
}

Result<ClusterAccess> in_cluster_access(const Environment& environment, const std::string& folder) {
  constexpr std::size_t kMostBytes = 253;
  const auto host = environment("KUBERNETES_SERVICE_HOST");
  const auto port = environment("KUBERNETES_SERVICE_PORT");
  if (!host || host->empty() || !port || port->empty())
    return fail(ErrorCode::kNotFound,
                "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this is no pod");
  ClusterAccess access;
  access.server =
      host->contains(':') ? fmt::format("https://[{}]:{}", *host, *port) : fmt::format("https://{}:{}", *host, *port);
  access.ca.file = folder + "/ca.crt";
  access.token_file = folder + "/token";
  KVIST_TRY(access.name_space, read_file(folder + "/namespace", kMostBytes));
  while (!access.name_space.empty() && access.name_space.back() == '\n') access.name_space.pop_back();
  KVIST_TRY_VOID(current_token(access));
  return access;
}

Result<ClusterAccess> find_access(const std::string& kubeconfig, const Environment& environment) {
  std::string file = kubeconfig;
  if (file.empty()) {
    if (environment("KUBERNETES_SERVICE_HOST")) return in_cluster_access(environment);
    file = environment("KUBECONFIG").value_or("");
    if (file.empty()) file = environment("HOME").value_or("") + "/.kube/config";
  }
  auto root = YamlNode::load(file);
  if (!root && kubeconfig.empty())
    return std::unexpected(std::move(root).error().in("no kubeconfig was named, and this is no pod"));
  if (!root) return std::unexpected(std::move(root).error());
  return read_kubeconfig(*root, std::filesystem::path(file).parent_path().string());
}

}  // namespace kvist::kubernetes

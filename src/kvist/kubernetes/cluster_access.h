// How a cluster's API server is reached, and as whom.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/base/yaml.h"
#include "kvist/net/tls.h"

namespace kvist::kubernetes {

/// Text in PEM form, in a file or in place.
struct Pem {
  std::string file = {};
  std::string text = {};

  [[nodiscard]] bool is_given() const { return !file.empty() || !text.empty(); }
  bool operator==(const Pem&) const = default;
};

struct ClusterAccess {
  std::string server;            ///< https://host:port
  std::string path_prefix = {};  ///< of all paths, where a proxy serves several clusters; "" or "/k8s/c-1"
  std::string name_space = "default";
  Pem ca = {};                   ///< whom to trust; not given: the system's authorities
  std::string server_name = {};  ///< that the certificate has to be for; empty: the server's host
  bool verify = true;
  std::string token = {};
  std::string token_file = {};  ///< read again for every request: the kubelet replaces a service account's token
  Pem certificate = {};
  Pem key = {};

  bool operator==(const ClusterAccess&) const = default;
};

/// What a kubeconfig says of a context, or of its current one. Paths are relative to `base_directory`. Errors name the
/// line. kUnsupported: credentials that a program has to be run for.
[[nodiscard]] Result<ClusterAccess> read_kubeconfig(const YamlNode& root, const std::string& base_directory,
                                                    std::string_view context = {});

using Environment = std::function<std::optional<std::string>(const std::string& name)>;
/// Where a pod finds what belongs to its service account.
inline constexpr const char* kServiceAccountFolder = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The access of a pod. Errors: kNotFound: this is none.
[[nodiscard]] Result<ClusterAccess> in_cluster_access(const Environment& environment,
                                                      const std::string& folder = kServiceAccountFolder);

/// That of the file, if one is given; otherwise a pod's, otherwise that of $KUBECONFIG or ~/.kube/config.
[[nodiscard]] Result<ClusterAccess> find_access(const std::string& kubeconfig, const Environment& environment);

/// The token that is sent now; empty: none. Errors: its file cannot be read.
[[nodiscard]] Result<std::string> current_token(const ClusterAccess& access);

/// For https servers; null for http. Texts in place reach no disk.
[[nodiscard]] Result<std::shared_ptr<net::TlsClient>> tls_of(const ClusterAccess& access);

/// Standard base64 with padding, white space ignored. Errors: anything else.
[[nodiscard]] Result<std::string> from_base64(std::string_view text);

}  // namespace kvist::kubernetes

// Calls to a cluster's API server with the patience that a deployment needs.
#pragma once

#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/deploy/until.h"
#include "kvist/kubernetes/blocking_client.h"

namespace kvist::deploy {

/// A namespace of a cluster, and who kvist is there. Every call repeats what is temporary (throttled, out of reach, the
/// server's own error), after the time that the server names, until `until`. Threads: one.
class ClusterSession {
 public:
  /// Who owns what is applied, and whether it takes fields from others. `setting`: where the user says the latter.
  struct Manager {
    std::string name;
    bool force = false;
    std::string setting;
  };

  /// `name_space` empty: that of the credentials. Errors: no access, unreadable credentials.
  [[nodiscard]] static Result<ClusterSession> create(const std::string& kubeconfig, const std::string& name_space,
                                                     Manager manager);

  [[nodiscard]] const std::string& name_space() const { return name_space_; }
  /// Objects of that kind in the namespace; with a selector, those with the label.
  [[nodiscard]] kubernetes::Collection all(const kubernetes::Resource& resource,
                                           std::string label_selector = {}) const {
    return {.resource = resource, .name_space = name_space_, .label_selector = std::move(label_selector)};
  }

  /// One attempt.
  [[nodiscard]] kubernetes::ApiResult<std::string> get(const kubernetes::Resource& resource,
                                                       const std::string& name) const;
  /// The first page, one attempt.
  [[nodiscard]] kubernetes::ApiResult<std::string> list(const kubernetes::Collection& collection) const;
  /// Server-side apply; the object after the change. Errors: a field manager's conflict names the fields, their owners
  /// and the setting that takes them.
  [[nodiscard]] Result<std::string> apply(const kubernetes::Resource& resource, const std::string& name,
                                          const std::string& manifest, const Until& until) const;
  /// An object that is not there is removed already.
  [[nodiscard]] Result<void> remove(const kubernetes::Resource& resource, const std::string& name,
                                    const Until& until) const;

  /// Whether to ask again.
  [[nodiscard]] static bool is_temporary(const kubernetes::ApiError& error);

 private:
  ClusterSession(kubernetes::BlockingClient client, std::string name_space, Manager manager)
      : client_(std::move(client)), name_space_(std::move(name_space)), manager_(std::move(manager)) {}
  [[nodiscard]] kubernetes::ApiResult<std::string> patiently(const net::HttpRequest& request, const Until& until) const;

  kubernetes::BlockingClient client_;
  std::string name_space_;
  Manager manager_;
};

}  // namespace kvist::deploy

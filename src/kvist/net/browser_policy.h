// What web pages may have a browser send to a server.
#pragma once

#include <string>
#include <vector>

#include "kvist/net/http_types.h"

namespace kvist::net {

/// A page that a user has open in a browser can have it send requests to any address that the browser can reach, also
/// to one on the loopback interface or behind a firewall. Browsers say where a request comes from (Origin, Host) and
/// ask before they send what a form could not send; this policy judges by that. Programs that are no browsers send no
/// Origin and notice nothing. No I/O. Threads: any.
struct BrowserPolicy {
  /// Pages that may send requests and read the answers (CORS), as "https://chat.example"; "*": all. A page of the
  /// server's own origin may in any case.
  std::vector<std::string> origins = {};
  /// Whether a request that may change something has to be one that no form can send: its content type is
  /// application/json, or it has the field X-Kvist-Request.
  bool changes_need_json = false;
  /// Whether Host has to be an IP address or localhost. Otherwise a page could have its own name resolved to this
  /// server, and so be of the same origin (DNS rebinding).
  bool own_names_only = false;

  bool operator==(const BrowserPolicy&) const = default;
};

/// What the policy says to a request.
struct BrowserVerdict {
  int refused = 0;          ///< the status of a refusal; 0: it is served
  std::string why = {};     ///< if it is refused
  bool preflight = false;   ///< the browser only asks whether it may send another request; it gets 204
  std::string fields = {};  ///< lines for the head of the answer, each with its line end
};

[[nodiscard]] BrowserVerdict judge(const BrowserPolicy& policy, const HttpRequest& request);

}  // namespace kvist::net

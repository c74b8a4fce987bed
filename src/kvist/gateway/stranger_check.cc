#include "kvist/gateway/stranger_check.h"

#include <optional>
#include <utility>

#include "kvist/gateway/dialect_door.h"
#include "kvist/gateway/proxy_headers.h"

namespace kvist::gateway {

net::HttpHeadCheck stranger_check(KeyGate* keys, RequestReporter* reporter) {
  if (keys == nullptr) return {};
  return [keys, reporter](const net::HttpRequest& head) {
    std::optional<net::HttpResponse> refusal = keys->refuse_stranger(head, net::now());
    if (!refusal) return refusal;
    if (reporter != nullptr)
      reporter->refused(head, given_request_id(refusal->headers), refusal->status, {}, net::now());
    return std::optional(in_form_of(head, *std::move(refusal)));
  };
}

}  // namespace kvist::gateway

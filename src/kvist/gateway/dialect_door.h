// Where requests in the APIs of other vendors come in: translated, they are chats like all others.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "kvist/dialects/dialect.h"
#include "kvist/gateway/key_gate.h"
#include "kvist/gateway/model_door.h"
#include "kvist/gateway/reading_pool.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_server.h"

namespace kvist::gateway {

/// The API that a request is in; nothing for OpenAI's chats and completions and for all that is passed on.
[[nodiscard]] std::optional<dialects::Dialect> dialect_of(const net::HttpRequest& request);

/// The API that an endpoint belongs to, whatever the method: workers do not know these, so nothing is passed on.
[[nodiscard]] std::optional<dialects::Dialect> dialect_of_path(std::string_view path);

/// An error answer in the form of the API that the request is in.
[[nodiscard]] net::HttpResponse in_form_of(const net::HttpRequest& request, net::HttpResponse error);

/// Translates requests of other APIs and gives them to their model's proxy; the answers are translated back. A request
/// that cannot be translated is answered here. Long ones are translated beside the loop. Threads: the loop's, which is
/// also the model door's.
class DialectDoor {
 public:
  /// Requires: both outlive this object.
  DialectDoor(net::EventLoop& loop, ModelDoor& door) : loop_(&loop), door_(&door), pool_(loop, {.threads = 1}) {}

  void handle(dialects::Dialect dialect, net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange,
              KeyLease lease);

 private:
  /// A request, which nobody else touches while it is translated.
  struct Asked {
    dialects::Dialect dialect;
    net::HttpRequest request;
    std::shared_ptr<net::HttpExchange> exchange;
    KeyLease lease;
  };
  /// Translating so much takes about a millisecond.
  static constexpr std::size_t kTranslatedOnLoopBytes = 32U << 10;

  void translate_beside(Asked asked);
  void on_translated(Asked asked, Result<dialects::Translation> translation);

  net::EventLoop* loop_;
  ModelDoor* door_;
  ReadingPool pool_;
};

}  // namespace kvist::gateway

#include "kvist/kubernetes/informer_driver.h"

#include <utility>

namespace kvist::kubernetes {
namespace {

/// Objects of a page.
constexpr std::uint32_t kPage = 500;

}  // namespace

InformerDriver::InformerDriver(net::EventLoop& loop, ApiClient& client, Collection collection, InformerBase& informer,
                               std::function<void()> on_event)
    : client_(&client),
      collection_(std::move(collection)),
      informer_(&informer),
      on_event_(std::move(on_event)),
      timer_(loop) {}

void InformerDriver::act() {
  ListWatch::Action action = informer_->poll(net::now());
  // A watch that was given up, or that the protocol takes to be broken, is not listened to any more.
  if (!informer_->protocol().has_call()) call_.reset();
  switch (action.kind) {
    case ListWatch::Action::Kind::kList:
      list(action.continue_token);
      break;
    case ListWatch::Action::Kind::kWatch:
      watch(action.resource_version);
      break;
    case ListWatch::Action::Kind::kNone:
      break;
  }
  act_later();
}

void InformerDriver::act_later() {
  if (const auto next = informer_->protocol().next_wakeup()) timer_.arm(*next, [this] { act(); });
}

void InformerDriver::list(const std::string& continue_token) {
  call_ = client_->call(kubernetes::list(collection_, kPage, continue_token), [this](ApiResult<std::string> page) {
    if (page) {
      informer_->on_page(*page, net::now());
    } else {
      informer_->on_failed(page.error(), net::now());
    }
    on_answer();
  });
}

void InformerDriver::watch(const std::string& resource_version) {
  call_ = client_->watch(kubernetes::watch(collection_, resource_version),
                         {.on_open =
                              [this] {
                                informer_->on_watch_open(net::now());
                                act_later();
                                on_event_();
                              },
                          .on_line =
                              [this](std::string_view line) {
                                const bool goes_on = informer_->on_line(line, net::now());
                                on_answer();
                                return goes_on;
                              },
                          .on_end =
                              [this] {
                                informer_->on_watch_end(net::now());
                                on_answer();
                              },
                          .on_failed =
                              [this](const ApiError& error) {
                                informer_->on_failed(error, net::now());
                                on_answer();
                              }});
}

// The call that tells this goes with the next act(), which comes from a timer and so not from within it.
void InformerDriver::on_answer() {
  act_later();
  on_event_();
}

}  // namespace kvist::kubernetes

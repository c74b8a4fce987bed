#include "kvist/kubernetes/informer.h"

namespace kvist::kubernetes {

void InformerBase::on_page(std::string_view text, TimePoint now) {
  if (auto taken = take_page(text, now); !taken) {
    forget_staged();
    protocol_.on_failed(kubernetes::unreadable(taken.error()), now);
  }
}

Result<void> InformerBase::stage_all(const JsonArray& items) {
  for (const JsonValue item : items) {
    KVIST_TRY(const JsonObject object, item.as_object());
    KVIST_TRY(const ObjectName name, read_object_name(object));
    if (auto staged = stage(name, object); !staged) note_unreadable(staged.error());
  }
  return {};
}

Result<void> InformerBase::take_page(std::string_view text, TimePoint now) {
  KVIST_TRY(const ListPage page, read_list_page(document_, text));
  if (page.items) KVIST_TRY_VOID(stage_all(*page.items));
  const bool was_synced = protocol_.synced();
  if (!protocol_.on_page(page.resource_version, page.continue_token, now)) return {};
  if (take_staged() || !was_synced) ++changes_;
  return {};
}

bool InformerBase::on_line(std::string_view line, TimePoint now) {
  const auto event = read_watch_event(document_, line);
  if (!event) {
    protocol_.on_failed(kubernetes::unreadable(event.error()), now);
    return false;
  }
  if (event->api_error) {
    forget_staged();
    protocol_.on_failed(*event->api_error, now);
    return false;
  }
  if (event->type != WatchEvent::Type::kBookmark) take_object(*event);
  protocol_.on_version(event->resource_version, now);
  return true;
}

void InformerBase::take_object(const WatchEvent& event) {
  const auto name = read_object_name(*event.object);
  if (!name) return note_unreadable(name.error());
  if (event.type == WatchEvent::Type::kDeleted) {
    if (erase(*name)) ++changes_;
    return;
  }
  const auto changed = put(*name, *event.object);
  if (!changed) note_unreadable(changed.error());
  if (!changed || *changed) ++changes_;
}

void InformerBase::note_unreadable(const Error& error) {
  ++unreadable_;
  unreadable_problem_ = error.message;
}

}  // namespace kvist::kubernetes

#include "kvist/routing/session_table.h"

namespace kvist::routing {

std::optional<WorkerId> SessionTable::find(std::uint64_t session, TimePoint now) {
  expire(now);
  const Place* const place = by_key_.find(Key(session));
  return place != nullptr ? std::optional(sessions_[*place].worker) : std::nullopt;
}

void SessionTable::put(std::uint64_t session, WorkerId worker, TimePoint now) {
  expire(now);
  if (const Place* const known = by_key_.find(Key(session))) {
    const Place place = *known;
    unlink(place);
    sessions_[place].worker = worker;
    sessions_[place].used = now;
    return link_last(place);
  }
  if (by_key_.size() >= most_) {
    erase(first_);
    ++displaced_;
  }
  Place place = unused_;
  if (place != kNone) {
    unused_ = sessions_[place].later;
  } else {
    place = static_cast<Place>(sessions_.size());
    sessions_.emplace_back();
  }
  sessions_[place] = {.key = Key(session), .worker = worker, .used = now};
  by_key_[Key(session)] = place;
  link_last(place);
}

void SessionTable::forget(WorkerId worker) {
  for (Place place = first_; place != kNone;) {
    const Place next = sessions_[place].later;
    if (sessions_[place].worker == worker) erase(place);
    place = next;
  }
}

void SessionTable::expire(TimePoint now) {
  while (first_ != kNone && now - sessions_[first_].used > ttl_) erase(first_);
}

void SessionTable::erase(Place place) {
  unlink(place);
  by_key_.erase(sessions_[place].key);
  sessions_[place].later = unused_;
  unused_ = place;
}

void SessionTable::unlink(Place place) {
  const Session& session = sessions_[place];
  (session.earlier != kNone ? sessions_[session.earlier].later : first_) = session.later;
  (session.later != kNone ? sessions_[session.later].earlier : last_) = session.earlier;
}

void SessionTable::link_last(Place place) {
  sessions_[place].earlier = last_;
  sessions_[place].later = kNone;
  (last_ != kNone ? sessions_[last_].later : first_) = place;
  last_ = place;
}

}  // namespace kvist::routing

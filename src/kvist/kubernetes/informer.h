// A copy of a collection of the API server that stays up to date.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "kvist/base/error.h"
#include "kvist/base/json.h"
#include "kvist/base/time.h"
#include "kvist/kubernetes/answers.h"
#include "kvist/kubernetes/list_watch.h"
#include "kvist/kubernetes/objects.h"

namespace kvist::kubernetes {

/// What InformerDriver needs to know of an informer, whatever its objects are. Pure. Threads: one.
class InformerBase {
 public:
  explicit InformerBase(std::uint64_t seed) : protocol_(seed) {}
  virtual ~InformerBase() = default;
  InformerBase(InformerBase&&) = default;
  InformerBase& operator=(InformerBase&&) = default;

  [[nodiscard]] ListWatch::Action poll(TimePoint now) { return protocol_.poll(now); }
  /// The body of an answered list. Errors have been reported to the protocol, which asks again.
  void on_page(std::string_view text, TimePoint now);
  void on_watch_open(TimePoint now) { protocol_.on_watch_open(now); }
  /// One line of the watch. Returns whether the watch goes on; if not, it is to be given up.
  [[nodiscard]] bool on_line(std::string_view line, TimePoint now);
  void on_watch_end(TimePoint now) { protocol_.on_watch_end(now); }
  void on_failed(const ApiError& error, TimePoint now) { protocol_.on_failed(error, now); }

  [[nodiscard]] const ListWatch& protocol() const { return protocol_; }
  /// Counts the changes of the copy: who has seen one number has seen all until then.
  [[nodiscard]] std::uint64_t changes() const { return changes_; }
  /// Objects that could not be read. They are left out, and the others are taken nevertheless.
  [[nodiscard]] std::uint64_t unreadable() const { return unreadable_; }
  [[nodiscard]] const std::string& unreadable_problem() const { return unreadable_problem_; }

 protected:
  /// An object of a list that is being read page by page, or of an event. Errors: it cannot be read.
  virtual Result<void> stage(const ObjectName& name, const JsonObject& object) = 0;
  virtual Result<bool> put(const ObjectName& name, const JsonObject& object) = 0;
  virtual bool erase(const ObjectName& name) = 0;
  /// The list is whole: it is the copy from here on. Returns whether that differs from before.
  virtual bool take_staged() = 0;
  virtual void forget_staged() = 0;

 private:
  [[nodiscard]] Result<void> take_page(std::string_view text, TimePoint now);
  [[nodiscard]] Result<void> stage_all(const JsonArray& items);
  void take_object(const WatchEvent& event);
  void note_unreadable(const Error& error);

  ListWatch protocol_;
  JsonDocument document_;
  std::uint64_t changes_ = 0;
  std::uint64_t unreadable_ = 0;
  std::string unreadable_problem_;  // of the last one
};

/// The copy, as what `read` makes of each object. As long as a list is not whole, and while the server is gone, the
/// copy stays what it was. Pure. Threads: one.
template <class T>
class Informer final : public InformerBase {
 public:
  using Read = std::function<Result<T>(const JsonObject& object)>;
  Informer(Read read, std::uint64_t seed) : InformerBase(seed), read_(std::move(read)) {}

  /// By ObjectName::key().
  [[nodiscard]] const std::map<std::string, T>& objects() const { return objects_; }

 private:
  Result<void> stage(const ObjectName& name, const JsonObject& object) override {
    KVIST_TRY(staged_[name.key()], read_(object));
    return {};
  }
  Result<bool> put(const ObjectName& name, const JsonObject& object) override {
    auto read = read_(object);
    if (!read) {
      erase(name);  // what it was is known to be wrong
      return std::unexpected(std::move(read).error());
    }
    const auto [place, is_new] = objects_.try_emplace(name.key(), *read);
    if (is_new) return true;
    if (place->second == *read) return false;
    place->second = *std::move(read);
    return true;
  }
  bool erase(const ObjectName& name) override { return objects_.erase(name.key()) > 0; }
  bool take_staged() override {
    const bool differs = staged_ != objects_;
    objects_ = std::exchange(staged_, {});
    return differs;
  }
  void forget_staged() override { staged_.clear(); }

  Read read_;
  std::map<std::string, T> objects_;
  std::map<std::string, T> staged_;
};

}  // namespace kvist::kubernetes

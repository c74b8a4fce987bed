#include "kvist/simulation/threads/huge_pages.h"

#include <jemalloc/jemalloc.h>
#include <sys/mman.h>
#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

// Programs without jemalloc have no such function.
#pragma weak mallctl

namespace kvist::simulation {
namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

/// Its hooks are those of jemalloc, but for new memory.
struct Arena {
  extent_hooks_t hooks = {};  // the first member: jemalloc hands a pointer to it to allocate()
  extent_hooks_t* defaults = nullptr;
  unsigned number = 0;
};

void* allocate(extent_hooks_t* hooks, void* wanted, std::size_t bytes, std::size_t alignment, bool* zero, bool* commit,
               unsigned number) {
  extent_hooks_t* const defaults = reinterpret_cast<Arena*>(hooks)->defaults;
  const bool huge = bytes >= kHugePageBytes;
  if (huge) alignment = std::max(alignment, kHugePageBytes);
  void* const memory = defaults->alloc(defaults, wanted, bytes, alignment, zero, commit, number);
  // Where the system does not do it, the memory is as good, only slower.
  if (huge && memory != nullptr) (void)::madvise(memory, bytes, MADV_HUGEPAGE);
  return memory;
}

template <class Value>
bool set(const std::string& name, Value value) {
  return mallctl(name.c_str(), nullptr, nullptr, &value, sizeof(value)) == 0;
}

template <class Value>
bool get(const std::string& name, Value& value) {
  std::size_t size = sizeof(value);
  return mallctl(name.c_str(), &value, &size, nullptr, 0) == 0;
}

std::unique_ptr<Arena> make_arena() {
  if (mallctl == nullptr) return nullptr;
  auto arena = std::make_unique<Arena>();
  if (!get("arenas.create", arena->number)) return nullptr;
  const std::string name = "arena." + std::to_string(arena->number) + ".";
  if (!get(name + "extent_hooks", arena->defaults)) return nullptr;
  arena->hooks = *arena->defaults;
  arena->hooks.alloc = allocate;
  const bool done = set(name + "dirty_decay_ms", ssize_t{-1}) && set(name + "muzzy_decay_ms", ssize_t{-1}) &&
                    set(name + "extent_hooks", &arena->hooks);
  return done ? std::move(arena) : nullptr;
}

/// Arenas live as long as the process; those of threads that have ended are kept here. Threads: any.
class Arenas {
 public:
  /// Null: there is none to be had.
  Arena* take() {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      Arena* const arena = free_.back();
      free_.pop_back();
      return arena;
    }
    std::unique_ptr<Arena> made = make_arena();
    return made == nullptr ? nullptr : all_.emplace_back(std::move(made)).get();
  }
  void give_back(Arena* arena) {
    const std::lock_guard lock(mutex_);
    free_.push_back(arena);
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Arena>> all_;
  std::vector<Arena*> free_;
};

// Never destroyed: the last thread ends after it would be.
Arenas& arenas() {
  static auto* const all = new Arenas;
  return *all;
}

/// A thread is in its arena until it ends: jemalloc gives all free memory of an arena back when the last thread leaves.
class OfThread {
 public:
  OfThread() : arena_(arenas().take()) {
    if (arena_ != nullptr && !set("thread.arena", arena_->number)) arenas().give_back(std::exchange(arena_, nullptr));
  }
  ~OfThread() {
    give_memory_back();
    if (arena_ != nullptr) arenas().give_back(arena_);
  }
  OfThread(const OfThread&) = delete;
  OfThread& operator=(const OfThread&) = delete;

  void give_memory_back() const {
    if (arena_ == nullptr) return;
    (void)mallctl("thread.tcache.flush", nullptr, nullptr, nullptr, 0);
    const std::string purge = "arena." + std::to_string(arena_->number) + ".purge";
    (void)mallctl(purge.c_str(), nullptr, nullptr, nullptr, 0);
  }

 private:
  Arena* arena_;
};

const OfThread& of_thread() {
  thread_local const OfThread own;
  return own;
}

}  // namespace

void use_huge_pages() {
  (void)of_thread();
}

void give_huge_pages_back() {
  of_thread().give_memory_back();
}

}  // namespace kvist::simulation

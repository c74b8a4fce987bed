// An array that is zero until it is written to, and takes memory only where it was.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

namespace kvist {

/// A fixed number of elements, all bytes of which are zero at first. Where the memory is new, the system gives a page
/// of it when something is written there, so a large array that is little used costs little.
template <class Element>
class ZeroedArray {
  static_assert(std::is_trivially_copyable_v<Element> && std::is_trivially_destructible_v<Element>);

 public:
  /// Throws std::bad_alloc.
  explicit ZeroedArray(std::size_t size)
      : elements_(static_cast<Element*>(std::calloc(size > 0 ? size : 1, sizeof(Element)))), size_(size) {
    if (!elements_) throw std::bad_alloc();
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] Element& operator[](std::size_t i) { return elements_.get()[i]; }
  [[nodiscard]] const Element& operator[](std::size_t i) const { return elements_.get()[i]; }
  /// The first `count` elements.
  [[nodiscard]] std::span<const Element> first(std::size_t count) const { return {elements_.get(), count}; }

 private:
  struct Free {
    void operator()(Element* elements) const { std::free(elements); }
  };
  std::unique_ptr<Element, Free> elements_;
  std::size_t size_ = 0;
};

}  // namespace kvist

// A step allocates nothing: this program's operator new counts.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "engine/cpu/tiny_models.h"

namespace {
std::atomic<std::size_t> allocations = 0;
}  // namespace

// Not inlined: GCC would take free() for the wrong partner of new.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
// By default this one calls the other; the address sanitizer's own does not, and would miss its delete.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  ++allocations;
  return std::malloc(bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace kvist::engine::cpu::allocation_test {
namespace {

TEST(ForwardPass, AllocatesNothing) {
  for (const unsigned threads : {1U, 3U}) {
    Computation computation(tiny_models()[1], threads);
    const std::vector<TokenId> tokens = prompt(80);
    const auto one = Computation::blocks(0, 5);
    const auto other = Computation::blocks(5, 5);
    // A prefill of 50 and one of 30, then both with chunks and decodes, from the first step on.
    const SequenceRows first[] = {{50, 0, one}, {30, 0, other}};
    const SequenceRows later[] = {{1, 50, one}, {20, 30, other}};
    const std::uint32_t all[] = {49, 79};
    const std::uint32_t last[] = {0, 20};
    const std::size_t before = allocations;
    static_cast<void>(computation.forward().run({tokens, first, all}));
    static_cast<void>(computation.forward().run({std::span(tokens).first(21), later, last}));
    EXPECT_EQ(allocations, before) << threads << " threads";
  }
}

}  // namespace
}  // namespace kvist::engine::cpu::allocation_test

// The heap of huge pages: no two blocks overlap, and free memory is used again or given back.
#include "kvist/kv_index/index_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "kvist/base/random.h"

namespace kvist::kv_index::huge_heap_test {
namespace {

TEST(HugeHeap, BlocksNeverOverlapAndExtentsGoWithTheirLastBlock) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomStream random(seed);
    HugeHeap heap;
    struct Block {
      std::size_t bytes = 0;
      unsigned char content = 0;
    };
    std::map<unsigned char*, Block> blocks;
    std::size_t held = 0;
    std::size_t most_held = 0;
    std::size_t most_extents = 0;
    for (int step = 0; step < 6'000; ++step) {
      const bool grows = step / 1'500 % 2 == 0;
      if (blocks.empty() || random.uniform() < (grows ? 0.7 : 0.3)) {
        const auto bytes = static_cast<std::size_t>(random.uniform_int(1, random.uniform() < 0.9 ? 30'000 : 400'000));
        auto* const block = static_cast<unsigned char*>(heap.allocate(bytes));
        ASSERT_NE(block, nullptr);
        ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block) % HugeHeap::kGranule, 0U);
        const auto after = blocks.lower_bound(block);
        if (after != blocks.end()) {
          ASSERT_LE(block + HugeHeap::rounded(bytes), after->first);
        }
        if (after != blocks.begin()) {
          const auto& [before, known] = *std::prev(after);
          ASSERT_LE(before + HugeHeap::rounded(known.bytes), block);
        }
        ASSERT_TRUE(std::all_of(block, block + bytes, [](unsigned char byte) { return byte == 0; }));
        const auto content = static_cast<unsigned char>(random.uniform_int(1, 255));
        std::memset(block, content, bytes);
        blocks[block] = {.bytes = bytes, .content = content};
        held += HugeHeap::rounded(bytes);
      } else {
        const auto skipped = random.uniform_int(0, static_cast<std::int64_t>(blocks.size()) - 1);
        const auto it = std::next(blocks.begin(), skipped);
        const auto [block, known] = *it;
        ASSERT_TRUE(std::all_of(block, block + known.bytes, [&](unsigned char byte) { return byte == known.content; }));
        heap.release(it->first, it->second.bytes);
        held -= HugeHeap::rounded(it->second.bytes);
        blocks.erase(it);
      }
      most_held = std::max(most_held, held);
      most_extents = std::max(most_extents, heap.extents());
    }
    EXPECT_LT(most_extents * HugeHeap::kExtent, most_held * 3 / 2 + 2 * HugeHeap::kExtent);
    for (const auto& [block, known] : blocks) heap.release(block, known.bytes);
    EXPECT_EQ(heap.extents(), 0U);
  }
}

TEST(HugeHeap, KeepsOneEmptyExtentWhileOthersAreInUse) {
  HugeHeap heap;
  std::vector<void*> wholes;
  for (int i = 0; i < 4; ++i) wholes.push_back(heap.allocate(HugeHeap::kExtent));
  EXPECT_EQ(heap.extents(), 4U);
  for (int i = 1; i < 4; ++i) {
    heap.release(wholes[static_cast<std::size_t>(i)], HugeHeap::kExtent);
    EXPECT_EQ(heap.extents(), i == 1 ? 4U : 5U - static_cast<std::size_t>(i));
  }
  heap.release(wholes[0], HugeHeap::kExtent);
  EXPECT_EQ(heap.extents(), 0U);
}

/// The number of pages in a range of memory for which the kernel holds memory.
std::size_t resident_pages(void* memory, std::size_t bytes) {
  std::vector<unsigned char> pages(bytes / 4096);
  EXPECT_EQ(::mincore(memory, bytes, pages.data()), 0);
  return static_cast<std::size_t>(std::ranges::count_if(pages, [](unsigned char page) { return (page & 1) != 0; }));
}

TEST(HugeHeap, GivesBackThePagesOfWhatIsMostlyFree) {
  HugeHeap heap;
  constexpr std::size_t kBytes = 8'192;
  std::vector<unsigned char*> blocks;
  for (std::size_t at = 0; at < HugeHeap::kExtent; at += kBytes) {
    blocks.push_back(static_cast<unsigned char*>(heap.allocate(kBytes)));
    std::memset(blocks.back(), 1, kBytes);
  }
  ASSERT_EQ(heap.extents(), 1U);
  unsigned char* const base = blocks.front();
  EXPECT_EQ(resident_pages(base, HugeHeap::kExtent), HugeHeap::kExtent / 4096);
  for (std::size_t i = 1; i < blocks.size(); ++i) {
    if (i % 8 != 0) heap.release(blocks[i], kBytes);
  }
  EXPECT_EQ(resident_pages(base, HugeHeap::kExtent), HugeHeap::kExtent / 4096 / 8);
  for (std::size_t i = 0; i < blocks.size(); i += 8) {
    EXPECT_EQ(blocks[i][0], 1);
    EXPECT_EQ(blocks[i][kBytes - 1], 1);
    heap.release(blocks[i], kBytes);
  }
  EXPECT_EQ(heap.extents(), 0U);
}

}  // namespace
}  // namespace kvist::kv_index::huge_heap_test

// Decides whether KV memory allows a request to start. Private to the engine.
#pragma once

#include <cstdint>
#include <memory>

#include "kvist/spec/deployment.h"

namespace kvist::engine {

/// The blocks that a request would take from the pool if it were admitted now.
struct BlockDemand {
  std::uint32_t total = 0;        ///< blocks it can ever need
  std::uint32_t cached = 0;       ///< of these, found in the prefix cache
  std::uint32_t cached_free = 0;  ///< cached blocks that are free now; using them leaves fewer blocks to allocate
  std::uint32_t first_step = 0;   ///< blocks that its first step allocates in addition to the cached ones
  /// The blocks that it can still allocate after admission.
  [[nodiscard]] std::uint32_t to_allocate() const { return total - cached; }
};

/// Decides on admission. It is informed of every block that admitted requests take, so that it can account for what was
/// promised. Threads: one.
class AdmissionPolicy {
 public:
  virtual ~AdmissionPolicy() = default;
  [[nodiscard]] static std::unique_ptr<AdmissionPolicy> make(spec::AdmissionKind kind);

  /// `free_blocks` is the number of blocks without references in the pool, cached or not.
  [[nodiscard]] virtual bool admits(const BlockDemand& demand, std::uint32_t free_blocks) const = 0;
  virtual void on_admitted(const BlockDemand& demand) = 0;
  /// An admitted request allocated blocks.
  virtual void on_allocated(std::uint32_t blocks) = 0;
  /// An admitted request left, which could have allocated `unallocated` more blocks.
  virtual void on_left(std::uint32_t unallocated) = 0;
};

/// Admits a request only if it can run to its longest possible end together with all the others, so that nothing is
/// ever preempted (TensorRT-LLM's GUARANTEED_NO_EVICT). Invariant: reserved() <= free blocks of the pool, so that an
/// admitted request always gets its blocks.
class ReserveToCompletion final : public AdmissionPolicy {
 public:
  [[nodiscard]] bool admits(const BlockDemand& demand, std::uint32_t free_blocks) const override;
  void on_admitted(const BlockDemand& demand) override;
  void on_allocated(std::uint32_t blocks) override;
  void on_left(std::uint32_t unallocated) override;

  /// Blocks promised to admitted requests and not yet allocated.
  [[nodiscard]] std::uint64_t reserved() const { return reserved_; }

 private:
  std::uint64_t reserved_ = 0;
};

/// Admits a request if its cached blocks and those of its first step fit now, without a promise for later steps. If a
/// running request then finds no block, another one is preempted (Scheduler). This is vLLM's rule.
class Greedy final : public AdmissionPolicy {
 public:
  [[nodiscard]] bool admits(const BlockDemand& demand, std::uint32_t free_blocks) const override {
    return demand.first_step + demand.cached_free <= free_blocks;
  }
  void on_admitted(const BlockDemand& /*demand*/) override {}
  void on_allocated(std::uint32_t /*blocks*/) override {}
  void on_left(std::uint32_t /*unallocated*/) override {}
};

}  // namespace kvist::engine

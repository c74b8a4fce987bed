// Which request may start, as far as KV memory decides it. Private to the engine.
#pragma once

#include <cstdint>

namespace kvist::engine {

/// What a request would take from the pool if it were admitted now.
struct BlockDemand {
  std::uint32_t total = 0;        ///< blocks it can ever need
  std::uint32_t cached = 0;       ///< of these, found in the prefix cache
  std::uint32_t cached_free = 0;  ///< of the cached ones, free now: taking them over makes fewer blocks allocatable
  /// Blocks it can still allocate after admission.
  [[nodiscard]] std::uint32_t to_allocate() const { return total - cached; }
};

/// Decides on admission and is told about every block that admitted requests take, so that it can account for what is
/// promised. Used by one thread.
class AdmissionPolicy {
 public:
  virtual ~AdmissionPolicy() = default;
  /// `free_blocks`: blocks without references in the pool, cached or not.
  [[nodiscard]] virtual bool admits(const BlockDemand& demand, std::uint32_t free_blocks) const = 0;
  virtual void on_admitted(const BlockDemand& demand) = 0;
  /// An admitted request allocated blocks.
  virtual void on_allocated(std::uint32_t blocks) = 0;
  /// An admitted request left; it could have allocated this many blocks more.
  virtual void on_left(std::uint32_t unallocated) = 0;
};

/// Admits a request only if it can run to its longest possible end beside all the others, whatever they need: nothing
/// is ever preempted. Invariant: reserved() <= free blocks of the pool, so allocate() never fails for an admitted
/// request.
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

}  // namespace kvist::engine

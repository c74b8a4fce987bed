#include "kvist/engine/admission.h"

#include "kvist/base/check.h"

namespace kvist::engine {

std::unique_ptr<AdmissionPolicy> AdmissionPolicy::make(spec::AdmissionKind kind) {
  switch (kind) {
    case spec::AdmissionKind::kReserveToCompletion:
      return std::make_unique<ReserveToCompletion>();
    case spec::AdmissionKind::kGreedy:
      return std::make_unique<Greedy>();
  }
  KVIST_CHECK(false, "an unknown admission policy");
}

bool ReserveToCompletion::admits(const BlockDemand& demand, std::uint32_t free_blocks) const {
  return reserved_ + demand.to_allocate() + demand.cached_free <= free_blocks;
}

void ReserveToCompletion::on_admitted(const BlockDemand& demand) {
  reserved_ += demand.to_allocate();
}

void ReserveToCompletion::on_allocated(std::uint32_t blocks) {
  KVIST_CHECK(blocks <= reserved_, "more blocks allocated than reserved");
  reserved_ -= blocks;
}

void ReserveToCompletion::on_left(std::uint32_t unallocated) {
  KVIST_CHECK(unallocated <= reserved_, "more blocks given back than reserved");
  reserved_ -= unallocated;
}

}  // namespace kvist::engine

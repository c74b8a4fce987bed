#include "kvist/jinja/meter.h"

#include <fmt/format.h>

namespace kvist::jinja {
namespace {

std::unexpected<Error> too_much(std::string_view what, std::uint64_t limit) {
  return fail(ErrorCode::kTooLarge, fmt::format("the chat template takes more than {} {}", limit, what));
}

}  // namespace

Result<void> Meter::step(std::uint64_t count) {
  if (count > limits_.steps - steps_) return too_much("steps", limits_.steps);
  steps_ += count;
  return {};
}

Result<void> Meter::allocate(std::size_t bytes) {
  if (bytes > limits_.memory_bytes - bytes_) return too_much("bytes of memory", limits_.memory_bytes);
  bytes_ += bytes;
  return {};
}

Result<void> Meter::check_output(std::size_t bytes) const {
  if (bytes > limits_.output_bytes) return too_much("bytes of output", limits_.output_bytes);
  return {};
}

Result<void> Meter::check_depth() const {
  if (depth_ > limits_.depth) return too_much("levels of nesting", limits_.depth);
  return {};
}

}  // namespace kvist::jinja

// Lists with one value per worker, several workers at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace kvist::routing {

/// What a decision asks of every worker of a large fleet is kept in lists by WorkerId, which are read without a branch
/// for each.
struct WorkerLanes {
  static constexpr std::size_t kLanes = 4;
  /// Lists have whole lanes of whoever reads most workers at a time (CostBlock).
  static constexpr std::size_t kMostLanes = 8;
  [[nodiscard]] static constexpr std::size_t padded(std::size_t workers) {
    return (workers + kMostLanes - 1) / kMostLanes * kMostLanes;
  }
  using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));
  using Counts = std::uint32_t __attribute__((vector_size(kLanes * sizeof(std::uint32_t))));

  [[nodiscard]] static Floats load(const float* from) { return read<Floats>(from); }
  [[nodiscard]] static Counts load(const std::uint32_t* from) { return read<Counts>(from); }
  static void store(float* to, const Floats& lanes) { std::memcpy(to, &lanes, sizeof lanes); }
  static void store(std::uint32_t* to, const Counts& lanes) { std::memcpy(to, &lanes, sizeof lanes); }
  [[nodiscard]] static Floats all(float value) { return Floats{} + value; }
  [[nodiscard]] static Counts all(std::uint32_t value) { return Counts{} + value; }
  template <class Vector>
  [[nodiscard]] static Vector highest(const Vector& a, const Vector& b) {
    return a > b ? a : b;
  }
  template <class Vector>
  [[nodiscard]] static Vector lowest(const Vector& a, const Vector& b) {
    return a < b ? a : b;
  }
  /// Whether a comparison holds in any lane.
  template <class Vector>
  [[nodiscard]] static bool any(const Vector& holds) {
    std::array<std::uint64_t, 2> bits = {};
    static_assert(sizeof bits == sizeof holds);
    std::memcpy(bits.data(), &holds, sizeof bits);
    return (bits[0] | bits[1]) != 0;
  }

 private:
  template <class Vector>
  [[nodiscard]] static Vector read(const void* from) {
    Vector lanes;
    std::memcpy(&lanes, from, sizeof lanes);
    return lanes;
  }
};

}  // namespace kvist::routing

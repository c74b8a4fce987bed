// Figures over time in bounded memory: the last half hour to the second, older instants coarser.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kvist::dashboard {

/// The width of a step, and how far back steps of that width are kept.
struct Resolution {
  std::int64_t step_s = 1;
  std::int64_t length_s = 0;
};
/// From fine to coarse. Each step is a multiple of the one before.
inline constexpr std::array<Resolution, 3> kResolutions = {{{1, 1'800}, {10, 14'400}, {60, 86'400}}};

/// Columns over the same instants. NaN: unknown.
struct SeriesView {
  std::int64_t step_s = 1;
  std::vector<std::int64_t> at_s;           ///< begins of the steps, ascending, without holes
  std::vector<std::vector<float>> columns;  ///< in the order of the figures
};

/// A fixed number of figures, one value of each per second. All memory is taken at once and never grows. A value of a
/// coarser resolution is the mean of those known within its step. Threads: one.
class TimeSeries {
 public:
  explicit TimeSeries(std::size_t figures);

  /// Takes the figures of a second. A second that is not after the last one is left out.
  void add(std::int64_t second, std::span<const std::optional<double>> figures);

  /// The last `window_s` up to the last second, in the finest resolution that has them in at most `most` steps.
  [[nodiscard]] SeriesView read(std::int64_t window_s, std::size_t most) const;

  [[nodiscard]] std::size_t bytes() const;
  [[nodiscard]] std::optional<std::int64_t> last() const { return last_; }

  /// What a series of so many figures takes.
  [[nodiscard]] static constexpr std::size_t bytes_of(std::size_t figures) {
    std::size_t bytes = 0;
    for (const Resolution& one : kResolutions) {
      const auto steps = static_cast<std::size_t>(one.length_s / one.step_s);
      bytes += steps * (sizeof(std::int64_t) + (figures * sizeof(float)));
    }
    return bytes + (kResolutions.size() * figures * sizeof(Mean));
  }

 private:
  struct Mean {
    double sum = 0;
    std::uint32_t count = 0;
  };
  /// A ring of steps.
  struct Ring {
    Resolution resolution;
    std::vector<std::int64_t> at;  // begin of the step in each place; kNone: nothing there
    std::vector<float> values;     // places x figures
    std::vector<Mean> means;       // of the step under way
  };
  static constexpr std::int64_t kNone = -1;

  void add_to(Ring& ring, std::int64_t second, std::span<const std::optional<double>> figures);
  [[nodiscard]] const Ring& ring_for(std::int64_t window_s, std::size_t most) const;

  std::size_t figures_;
  std::array<Ring, kResolutions.size()> rings_;
  std::optional<std::int64_t> last_;
};

}  // namespace kvist::dashboard

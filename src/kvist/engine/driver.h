// Who runs an engine's steps, one after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/engine/core.h"

namespace kvist::engine {

/// How a driver's steps have kept time so far.
struct DriverTimes {
  Duration busy{};                       ///< of all steps together: as the model says, or as they took
  Duration lateness{};                   ///< how much later than its modelled end each step was ended, summed
  std::uint64_t resynchronisations = 0;  ///< how often a modelled clock was given up for the present
};

/// An engine that is run: requests in, outputs out whenever it is polled. Used by one thread, the worker's loop; what
/// computes beside it (a device thread) is the implementation's own affair.
class Driver {
 public:
  virtual ~Driver() = default;

  /// See Core::submit(). A poll() soon after each of these three lets them take effect.
  [[nodiscard]] virtual Result<void> submit(Request request, TimePoint now) = 0;
  virtual void abort(RequestId id) = 0;
  /// False, and nothing happens, while requests are running.
  [[nodiscard]] virtual bool reset_prefix_cache() = 0;
  /// Ends the oldest step if it is over, begins what can begin, and puts the news into `outputs`, whose content is
  /// replaced and whose memory is used again.
  virtual void poll(TimePoint now, StepOutputs& outputs) = 0;
  /// When poll() has something to do next, as far as that is a matter of time.
  [[nodiscard]] virtual std::optional<TimePoint> next_wakeup() const = 0;
  /// Called, from any thread, when there is something to poll that next_wakeup() could not tell. Set before the first
  /// request; must not block.
  virtual void set_wake(std::function<void()> wake) = 0;

  [[nodiscard]] virtual CoreStats stats() const = 0;
  [[nodiscard]] virtual const Core& core() const = 0;
  [[nodiscard]] virtual DriverTimes times() const = 0;
};

}  // namespace kvist::engine

// The interface of what runs an engine's steps, one after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/engine/core.h"

namespace kvist::engine {

/// The timing of a driver's steps so far.
struct DriverTimes {
  Duration busy{};                       ///< of all steps together, as modelled or as measured
  Duration lateness{};                   ///< how much later than its modelled end each step was ended, summed
  std::uint64_t resynchronisations = 0;  ///< how often a modelled clock was set to the present
};

/// Runs an engine: takes requests, and gives outputs whenever it is polled. Threads: one, the worker's loop. An
/// implementation may compute on a device thread of its own.
class Driver {
 public:
  virtual ~Driver() = default;

  /// See Core::submit(). The effect of this and the next two becomes visible by a poll() after them.
  [[nodiscard]] virtual Result<void> submit(Request request, TimePoint now) = 0;
  virtual void abort(RequestId id) = 0;
  /// Returns false and does nothing while requests are running.
  [[nodiscard]] virtual bool reset_prefix_cache() = 0;
  /// Ends the oldest step if its time is over and begins what can begin. Replaces the content of `outputs` and reuses
  /// its memory.
  virtual void poll(TimePoint now, StepOutputs& outputs) = 0;
  /// When poll() has something to do next, as far as this depends on time.
  [[nodiscard]] virtual std::optional<TimePoint> next_wakeup() const = 0;
  /// Sets the function that is called, from any thread, when poll() has something to do that next_wakeup() could not
  /// predict. Requires: it is set before the first request and does not block.
  virtual void set_wake(std::function<void()> wake) = 0;

  [[nodiscard]] virtual CoreStats stats() const = 0;
  [[nodiscard]] virtual const Core& core() const = 0;
  [[nodiscard]] virtual DriverTimes times() const = 0;
};

}  // namespace kvist::engine

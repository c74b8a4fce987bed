// Independent pieces of work on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace kvist::sweep {

/// One per core, at least one.
[[nodiscard]] unsigned available_threads();

/// Calls work(i) once for each i in [0, count), on at most `threads` threads (0: one per core); returns when all are
/// done. The order is not fixed: results belong into slots of their own, so that nothing depends on the number of
/// threads. `work` must not throw.
void for_each_index(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& work);

}  // namespace kvist::sweep

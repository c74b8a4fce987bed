// Independent pieces of work on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace kvist::sweep {

/// One per core that this process may use, at least one.
[[nodiscard]] unsigned available_threads();

/// Calls work(i) once for each i in [0, count), on at most `threads` threads (0: one per core), and returns when all
/// are done. The order is undefined, so each call has to write its result to a place of its own. Requires: `work` does
/// not throw.
void for_each_index(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& work);

}  // namespace kvist::sweep

// Memory of a simulation in huge pages.
#pragma once

namespace kvist::simulation {

/// From now on, what the calling thread allocates is in huge pages, if the program has jemalloc and the system gives
/// them; otherwise nothing happens. A simulation is in all its workers' memory all the time, so that with pages of 4
/// KiB much of what it waits for is the way to a page: with huge ones three workers are a tenth faster, and a thousand
/// on two cores a fifth (docs/results/benchmarks.md). Memory that is freed is kept until the thread ends, because
/// giving it back page by page would break up huge ones. Threads: any.
void use_huge_pages();
/// Gives what the calling thread has freed back to the system. After a large simulation the next one is faster in new
/// memory, where what is made together lies together.
void give_huge_pages_back();

}  // namespace kvist::simulation

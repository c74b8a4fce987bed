#include "kvist/telemetry/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace kvist::telemetry {
namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

void write_memory(MetricsPage& page) {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t all = 0;
  std::uint64_t resident = 0;
  if (!(statm >> all >> resident)) return;
  const auto page_bytes = static_cast<double>(::sysconf(_SC_PAGESIZE));
  page.gauge("process_virtual_memory_bytes", "Virtual memory.", static_cast<double>(all) * page_bytes);
  page.gauge("process_resident_memory_bytes", "Memory that is in RAM.", static_cast<double>(resident) * page_bytes);
}

void write_files(MetricsPage& page) {
  std::error_code error;
  const std::filesystem::directory_iterator open("/proc/self/fd", error);
  // The look-up itself has one open.
  if (!error)
    page.gauge("process_open_fds", "Open files.", static_cast<double>(std::distance(begin(open), end(open)) - 1));
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0)
    page.gauge("process_max_fds", "Files that may be open at once.", static_cast<double>(limit.rlim_cur));
}

}  // namespace

void write_process_metrics(MetricsPage& page, double started_unix_s) {
  page.gauge("process_start_time_seconds", "When the process started, in Unix time.", started_unix_s);
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) {
    page.counter("process_cpu_seconds_total", "Processor time, of user and system.",
                 seconds(usage.ru_utime) + seconds(usage.ru_stime));
  }
  write_memory(page);
  write_files(page);
}

}  // namespace kvist::telemetry

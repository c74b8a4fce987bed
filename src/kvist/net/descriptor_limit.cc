#include "kvist/net/descriptor_limit.h"

#include <sys/resource.h>

namespace kvist::net {

std::uint64_t raise_descriptor_limit() {
  constexpr std::uint64_t kUnknown = 1'024;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kUnknown;
  const rlimit raised{.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
  return ::setrlimit(RLIMIT_NOFILE, &raised) == 0 ? raised.rlim_cur : limit.rlim_cur;
}

}  // namespace kvist::net

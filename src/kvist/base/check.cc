#include "kvist/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace kvist::detail {

void check_failed(const char* file, int line, const char* condition, const std::string& context) {
  std::fprintf(stderr, "kvist: broken invariant at %s:%d: %s (%s)\n", file, line, condition, context.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace kvist::detail

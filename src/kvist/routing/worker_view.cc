#include "kvist/routing/worker_view.h"

namespace kvist::routing {

std::string_view to_string(CacheTrust trust) {
  switch (trust) {
    case CacheTrust::kNone:
      return "none";
    case CacheTrust::kPredicted:
      return "predicted";
    case CacheTrust::kExact:
      return "exact";
  }
  return "none";
}

}  // namespace kvist::routing

// fuzz: kubernetes
// What an API server sends: lines of a watch, pages of a list, refusals.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kvist/base/check.h"
#include "kvist/kubernetes/informer.h"
#include "kvist/kubernetes/line_splitter.h"
#include "kvist/kubernetes/worker_mapping.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvist;
  using namespace kvist::kubernetes;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const TimePoint now = TimePoint() + std::chrono::seconds(1);
  Informer<EndpointSlice> slices(read_endpoint_slice, 1);
  Informer<PodMetadata> pods(read_pod_metadata, 1);
  KVIST_CHECK(slices.poll(now).kind == ListWatch::Action::Kind::kList, "the first thing is a list");
  slices.on_page(text, now);
  LineSplitter splitter(kMostEventBytes);
  const auto taken = splitter.take(text, [&](std::string_view line) {
    (void)pods.on_line(line, now);
    return slices.on_line(line, now);
  });
  KVIST_CHECK(taken || !taken.error().message.empty(), "an error says what is wrong");
  const auto workers = workers_of(slices.objects(), pods.objects(), {.group = "g", .model = "m"});
  for (const Worker& worker : workers) {
    KVIST_CHECK(worker.port != 0 && !worker.host.empty(), "a worker can be reached");
    KVIST_CHECK(worker.host.find_first_of("/@?# ") == std::string::npos, "a host is nothing but a host");
  }
  Informer<InferencePool> pools(read_inference_pool, 1);
  Informer<Pod> pool_pods(read_pod, 1);
  KVIST_CHECK(pools.poll(now).kind == ListWatch::Action::Kind::kList, "the first thing is a list");
  pools.on_page(text, now);
  KVIST_CHECK(pool_pods.poll(now).kind == ListWatch::Action::Kind::kList, "the first thing is a list");
  pool_pods.on_page(text, now);
  for (const auto& [key, pool] : pools.objects()) {
    KVIST_CHECK(!pool.label_selector().empty(), "a pool without labels would select every pod");
    for (const Worker& worker : workers_of(pool, pool_pods.objects(), {.group = "g", .model = "m"}))
      KVIST_CHECK(worker.port != 0 && worker.host.find_first_of("/@?# ") == std::string::npos, "a host and a port");
  }
  const ApiError error =
      error_of({.status = 400 + static_cast<int>(size % 200), .headers = {}, .body = std::string(text)});
  KVIST_CHECK(!to_error(error).message.empty(), "an error says what is wrong");
  KVIST_CHECK(!error.retry_after || *error.retry_after <= std::chrono::hours(1), "nobody waits for days");
  return 0;
}

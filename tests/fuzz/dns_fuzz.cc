// fuzz: net
// Answers of name servers: whatever is read of one is an address or a service.
#include <arpa/inet.h>

#include <cstddef>
#include <cstdint>

#include "kvist/base/check.h"
#include "kvist/net/dns_lookup.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvist;
  const auto records = net::read_dns_records(data, size);
  if (!records) {
    KVIST_CHECK(!records.error().message.empty(), "an error says what is wrong");
    return 0;
  }
  for (const std::string& address : records->addresses) {
    in6_addr bytes{};
    const int family = address.contains(':') ? AF_INET6 : AF_INET;
    KVIST_CHECK(inet_pton(family, address.c_str(), &bytes) == 1, "an address can be written and read");
  }
  // A message of 64 KiB has no more than so many records.
  KVIST_CHECK(records->addresses.size() + records->services.size() <= size, "records take bytes");
  return 0;
}

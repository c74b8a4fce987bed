#include "kvist/net/sha256.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <sys/random.h>

#include <memory>
#include <vector>

#include "kvist/base/check.h"

namespace kvist::net {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

}  // namespace

struct Sha256Stream::Context {
  std::unique_ptr<EVP_MD_CTX, FreeContext> openssl{EVP_MD_CTX_new()};
};

Sha256Stream::Sha256Stream() : context_(std::make_unique<Context>()) {
  KVIST_CHECK(EVP_DigestInit_ex2(context_->openssl.get(), EVP_sha256(), nullptr) == 1, "OpenSSL computes no SHA-256");
}

Sha256Stream::~Sha256Stream() = default;

void Sha256Stream::add(std::string_view data) {
  KVIST_CHECK(EVP_DigestUpdate(context_->openssl.get(), data.data(), data.size()) == 1, "OpenSSL computes no SHA-256");
}

Sha256 Sha256Stream::finish() {
  Sha256 hash{};
  unsigned int length = 0;
  KVIST_CHECK(EVP_DigestFinal_ex(context_->openssl.get(), hash.data(), &length) == 1 && length == hash.size(),
              "OpenSSL computes no SHA-256");
  return hash;
}

Sha256 sha256(std::string_view data) {
  // OpenSSL's one-shot functions look the algorithm up each time, which takes longer than to hash a key.
  static const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA2-256", nullptr);
  thread_local const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  Sha256 hash{};
  unsigned int length = 0;
  const bool done = EVP_DigestInit_ex2(context.get(), algorithm, nullptr) == 1 &&
                    EVP_DigestUpdate(context.get(), data.data(), data.size()) == 1 &&
                    EVP_DigestFinal_ex(context.get(), hash.data(), &length) == 1;
  KVIST_CHECK(done && length == hash.size(), "OpenSSL computes no SHA-256");
  return hash;
}

std::string to_hex(const Sha256& hash) {
  std::string text;
  for (const std::uint8_t byte : hash) text.append(1, kHexDigits[byte >> 4]).append(1, kHexDigits[byte & 15]);
  return text;
}

std::optional<Sha256> sha256_from_hex(std::string_view text) {
  Sha256 hash{};
  if (text.size() != 2 * hash.size()) return std::nullopt;
  for (std::size_t i = 0; i < hash.size(); ++i) {
    const int high = digit_of(text[2 * i]);
    const int low = digit_of(text[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    hash[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return hash;
}

bool equal_in_constant_time(const Sha256& a, const Sha256& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string random_text(std::size_t bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::vector<std::uint8_t> random(bytes);
  for (std::size_t at = 0; at < bytes;) {
    const ssize_t got = ::getrandom(random.data() + at, bytes - at, 0);
    if (got > 0) at += static_cast<std::size_t>(got);
  }
  std::string text;
  std::uint32_t held = 0;
  int bits = 0;
  for (const std::uint8_t byte : random) {
    held = held << 8 | byte;
    for (bits += 8; bits >= 6; bits -= 6) text += kDigits[held >> (bits - 6) & 63];
    held &= (1U << bits) - 1;
  }
  if (bits > 0) text += kDigits[held << (6 - bits) & 63];
  return text;
}

}  // namespace kvist::net

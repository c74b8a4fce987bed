// Texts as the libraries compress them.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <string>
#include <string_view>

#include "kvist/net/content_decoder.h"

namespace kvist::net {

inline std::string zlib_of(std::string_view text, ContentCoding coding, int level = 6) {
  z_stream zlib{};
  const int bits = MAX_WBITS + (coding == ContentCoding::kGzip ? 16 : 0);
  EXPECT_EQ(::deflateInit2(&zlib, level, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(::deflateBound(&zlib, text.size()), '\0');
  std::string in(text);
  zlib.next_in = reinterpret_cast<Bytef*>(in.data());
  zlib.avail_in = static_cast<uInt>(in.size());
  zlib.next_out = reinterpret_cast<Bytef*>(out.data());
  zlib.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(::deflate(&zlib, Z_FINISH), Z_STREAM_END);
  out.resize(zlib.total_out);
  ::deflateEnd(&zlib);
  return out;
}

inline std::string zstd_of(std::string_view text, int level = 3) {
  std::string out(::ZSTD_compressBound(text.size()), '\0');
  out.resize(::ZSTD_compress(out.data(), out.size(), text.data(), text.size(), level));
  return out;
}

inline std::string compressed(std::string_view text, ContentCoding coding, int level = 6) {
  return coding == ContentCoding::kZstd ? zstd_of(text, level) : zlib_of(text, coding, level);
}

inline constexpr ContentCoding kCodings[] = {ContentCoding::kGzip, ContentCoding::kDeflate, ContentCoding::kZstd};

}  // namespace kvist::net

#include "kvist/net/content_decoder.h"

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/net/http_types.h"

namespace kvist::net {
namespace {

constexpr std::size_t kOutputPieceBytes = 64UL << 10;

std::string_view name_of(ContentCoding coding) {
  switch (coding) {
    case ContentCoding::kGzip:
      return "gzip";
    case ContentCoding::kDeflate:
      return "deflate";
    case ContentCoding::kZstd:
      return "zstd";
  }
  return "";
}

std::unexpected<Error> corrupt(ContentCoding coding, std::string_view why) {
  return fail(ErrorCode::kCorrupt, fmt::format("the body is not valid {}: {}", name_of(coding), why));
}

}  // namespace

std::optional<ContentCoding> content_coding(std::string_view name) {
  if (equals_no_case(name, "gzip") || equals_no_case(name, "x-gzip")) return ContentCoding::kGzip;
  if (equals_no_case(name, "deflate")) return ContentCoding::kDeflate;
  if (equals_no_case(name, "zstd")) return ContentCoding::kZstd;
  return std::nullopt;
}

/// One library's decoder.
class ContentDecoder::Stream {
 public:
  Stream() = default;
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Removes what it reads from `input` and returns how many bytes it has put into `out`. Nothing read and nothing put:
  /// it needs more input.
  [[nodiscard]] virtual Result<std::size_t> next(std::string_view& input, std::span<char> out) = 0;
  /// Whether the input may end here.
  [[nodiscard]] virtual bool at_end() const = 0;
  /// What the library keeps.
  [[nodiscard]] virtual std::size_t bytes() const = 0;
};

/// gzip, whose body may have several members one after the other, and deflate, which is zlib's format (RFC
/// 9110, 8.4.1).
class ContentDecoder::ZlibStream final : public Stream {
 public:
  explicit ZlibStream(ContentCoding coding) : coding_(coding) {
    constexpr int kGzipFormat = 16;
    const int window_bits = MAX_WBITS + (coding == ContentCoding::kGzip ? kGzipFormat : 0);
    KVIST_CHECK(::inflateInit2(&zlib_, window_bits) == Z_OK, "zlib has no memory");
  }
  ~ZlibStream() override { ::inflateEnd(&zlib_); }

  [[nodiscard]] Result<std::size_t> next(std::string_view& input, std::span<char> out) override {
    if (at_end_) {
      if (coding_ != ContentCoding::kGzip) return corrupt(coding_, "something follows its end");
      ::inflateReset(&zlib_);
      at_end_ = false;
    }
    // zlib does not write to its input, but says so only with ZLIB_CONST.
    zlib_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));  // NOLINT
    zlib_.avail_in = static_cast<uInt>(input.size());
    zlib_.next_out = reinterpret_cast<Bytef*>(out.data());
    zlib_.avail_out = static_cast<uInt>(out.size());
    const int result = ::inflate(&zlib_, Z_NO_FLUSH);
    input.remove_prefix(input.size() - zlib_.avail_in);
    if (result == Z_STREAM_END) {
      at_end_ = true;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      return corrupt(coding_, zlib_.msg != nullptr ? zlib_.msg : "it needs what was not sent");
    }
    return out.size() - zlib_.avail_out;
  }
  [[nodiscard]] bool at_end() const override { return at_end_; }
  // zlib does not tell: its window of 32 KiB and tables.
  [[nodiscard]] std::size_t bytes() const override { return 48UL << 10; }

 private:
  ContentCoding coding_;
  z_stream zlib_{};
  bool at_end_ = false;
};

/// Frames of zstd, one after the other.
class ContentDecoder::ZstdStream final : public Stream {
 public:
  ZstdStream() : zstd_(::ZSTD_createDStream()) {
    constexpr int kWindowLog = 23;
    static_assert(std::size_t{1} << kWindowLog == kMostWindowBytes);
    KVIST_CHECK(zstd_ != nullptr, "zstd has no memory");
    ::ZSTD_DCtx_setParameter(zstd_, ZSTD_d_windowLogMax, kWindowLog);
  }
  ~ZstdStream() override { ::ZSTD_freeDStream(zstd_); }

  [[nodiscard]] Result<std::size_t> next(std::string_view& input, std::span<char> out) override {
    ZSTD_inBuffer in{.src = input.data(), .size = input.size(), .pos = 0};
    ZSTD_outBuffer to{.dst = out.data(), .size = out.size(), .pos = 0};
    const std::size_t result = ::ZSTD_decompressStream(zstd_, &to, &in);
    if (::ZSTD_isError(result) != 0) return corrupt(ContentCoding::kZstd, ::ZSTD_getErrorName(result));
    input.remove_prefix(in.pos);
    at_end_ = result == 0;
    return to.pos;
  }
  [[nodiscard]] bool at_end() const override { return at_end_; }
  [[nodiscard]] std::size_t bytes() const override { return ::ZSTD_sizeof_DStream(zstd_); }

 private:
  ZSTD_DStream* zstd_;
  bool at_end_ = false;
};

ContentDecoder::ContentDecoder(ContentCoding coding, std::string input, std::uint64_t most_bytes)
    : coding_(coding),
      input_(std::make_unique<const std::string>(std::move(input))),
      rest_(*input_),
      most_bytes_(most_bytes) {}

ContentDecoder::~ContentDecoder() = default;
ContentDecoder::ContentDecoder(ContentDecoder&&) noexcept = default;
ContentDecoder& ContentDecoder::operator=(ContentDecoder&&) noexcept = default;

std::unique_ptr<ContentDecoder::Stream> ContentDecoder::open(ContentCoding coding) {
  if (coding == ContentCoding::kZstd) return std::make_unique<ZstdStream>();
  return std::make_unique<ZlibStream>(coding);
}

void ContentDecoder::restart() {
  stream_.reset();
  rest_ = *input_;
  output_ = {};
}

std::size_t ContentDecoder::held_bytes() const {
  return input_->size() + output_.size() + (stream_ ? stream_->bytes() : 0);
}

Result<bool> ContentDecoder::run(std::size_t budget) {
  if (!stream_) stream_ = open(coding_);
  std::array<char, kOutputPieceBytes>
      piece;  // NOLINT(cppcoreguidelines-pro-type-member-init): written before it is read
  std::size_t worked = 0;
  while (worked < budget) {
    const std::size_t before = rest_.size();
    KVIST_TRY(const std::size_t size, stream_->next(rest_, piece));
    if (output_.size() + size > most_bytes_) {
      return fail(ErrorCode::kTooLarge, "the request body is too large");
    }
    output_.append(piece.data(), size);
    // Input that makes no output (empty members and frames) is work, too.
    worked += std::max(size, before - rest_.size());
    const bool stands_still = size == 0 && before == rest_.size();
    if (rest_.empty() && stream_->at_end()) return true;
    if (stands_still) return corrupt(coding_, "its end is missing");
  }
  return false;
}

}  // namespace kvist::net

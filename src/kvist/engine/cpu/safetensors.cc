#include "kvist/engine/cpu/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "kvist/base/json.h"

namespace kvist::engine::cpu {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kJsonDepth = 8;  // object, tensor, list: 3; more is no header
constexpr std::size_t kShownNameBytes = 100;

struct TypeName {
  std::string_view name;
  std::size_t bytes;
};

// In the order of DataType.
constexpr std::array<TypeName, 15> kTypes{{{"F32", 4},
                                           {"F16", 2},
                                           {"BF16", 2},
                                           {"F64", 8},
                                           {"I64", 8},
                                           {"U64", 8},
                                           {"I32", 4},
                                           {"U32", 4},
                                           {"I16", 2},
                                           {"U16", 2},
                                           {"I8", 1},
                                           {"U8", 1},
                                           {"BOOL", 1},
                                           {"F8_E4M3", 1},
                                           {"F8_E5M2", 1}}};

std::optional<DataType> data_type(std::string_view name) {
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].name == name) return static_cast<DataType>(i);
  }
  return std::nullopt;
}

/// a * b, or nothing if it does not fit 64 bits.
std::optional<std::uint64_t> product(std::uint64_t a, std::uint64_t b) {
  if (a != 0 && b > std::numeric_limits<std::uint64_t>::max() / a) return std::nullopt;
  return a * b;
}

/// Reads the tensors of a header.
class HeaderReader {
 public:
  HeaderReader(std::string_view file, std::uint64_t data_begin, std::uint64_t data_bytes)
      : file_(file), data_begin_(data_begin), data_bytes_(data_bytes) {}

  Result<std::vector<TensorEntry>> read(const JsonObject& header) {
    for (const auto [key, value] : header) {
      if (key == "__metadata__") {
        KVIST_TRY_VOID(check_metadata(value));
      } else {
        tensor_ = key;
        KVIST_TRY(TensorEntry entry, read_entry(value));
        entries_.push_back(std::move(entry));
      }
    }
    KVIST_TRY_VOID(check_coverage());
    KVIST_TRY_VOID(check_names());
    return std::move(entries_);
  }

 private:
  [[nodiscard]] std::unexpected<Error> corrupt(std::string_view what) const {
    return fail(ErrorCode::kCorrupt,
                fmt::format("{}: tensor '{}': {}", file_, std::string_view(tensor_).substr(0, kShownNameBytes), what));
  }

  static Result<void> check_metadata(const JsonValue& value) {
    KVIST_TRY(const JsonObject metadata, value.as_object());
    for (const auto [key, text] : metadata) KVIST_TRY_VOID(text.as_string());
    return {};
  }

  Result<TensorEntry> read_entry(const JsonValue& value) {
    KVIST_TRY(const JsonObject fields, value.as_object());
    if (fields.size() != 3) return value.wrong("expected exactly the fields dtype, shape and data_offsets");
    TensorEntry entry;
    entry.name = tensor_;
    KVIST_TRY(const std::string_view type_name, fields.require_string("dtype"));
    const auto type = data_type(type_name);
    if (!type) return fields.wrong("dtype", fmt::format("{} is none of the format's", in_quotes(type_name)));
    entry.type = *type;
    KVIST_TRY(entry.shape, numbers(fields, "shape", kMaxDimensions));
    KVIST_TRY(const std::vector<std::uint64_t> offsets, numbers(fields, "data_offsets", 2));
    if (offsets.size() != 2) return fields.wrong("data_offsets", "expected [begin, end]");
    if (offsets[0] > offsets[1] || offsets[1] > data_bytes_) {
      return fields.wrong("data_offsets", fmt::format("[{}, {}) is not within the file's {} bytes of data", offsets[0],
                                                      offsets[1], data_bytes_));
    }
    std::optional<std::uint64_t> bytes = bytes_of(*type);
    for (const std::uint64_t n : entry.shape) bytes = bytes ? product(*bytes, n) : bytes;
    if (!bytes || *bytes != offsets[1] - offsets[0]) {
      return corrupt(fmt::format("shape {} of {} needs {} bytes, its data_offsets give {}", entry.shape, type_name,
                                 bytes ? std::to_string(*bytes) : "more than 2^64", offsets[1] - offsets[0]));
    }
    entry.begin = data_begin_ + offsets[0];
    entry.end = data_begin_ + offsets[1];
    return entry;
  }

  static Result<std::vector<std::uint64_t>> numbers(const JsonObject& fields, std::string_view key,
                                                    std::size_t at_most) {
    KVIST_TRY(const JsonArray list, fields.require_array(key, "an array of numbers"));
    std::vector<std::uint64_t> out;
    for (const JsonValue item : list) {
      const std::optional<std::uint64_t> number = item.if_unsigned();
      if (!number) return item.expected("a whole number from 0");
      if (out.size() == at_most) return list.value().wrong(fmt::format("more than {} numbers", at_most));
      out.push_back(*number);
    }
    return out;
  }

  /// The tensors follow one another from the first byte of the data to its last.
  Result<void> check_coverage() {
    std::sort(entries_.begin(), entries_.end(), [](const TensorEntry& a, const TensorEntry& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    std::uint64_t end = data_begin_;
    for (const TensorEntry& entry : entries_) {
      tensor_ = entry.name;
      if (entry.begin != end) {
        return corrupt(fmt::format("{} at byte {} of the data: tensors must follow one another without holes",
                                   entry.begin < end ? "overlaps another" : "leaves a hole",
                                   entry.begin - data_begin_));
      }
      end = entry.end;
    }
    if (end != data_begin_ + data_bytes_) {
      return fail(ErrorCode::kCorrupt, fmt::format("{}: {} bytes after the last tensor: the file must end with it",
                                                   file_, data_begin_ + data_bytes_ - end));
    }
    return {};
  }

  Result<void> check_names() {
    std::sort(entries_.begin(), entries_.end(),
              [](const TensorEntry& a, const TensorEntry& b) { return a.name < b.name; });
    const auto twice = std::adjacent_find(entries_.begin(), entries_.end(),
                                          [](const TensorEntry& a, const TensorEntry& b) { return a.name == b.name; });
    if (twice == entries_.end()) return {};
    tensor_ = twice->name;
    return corrupt("named twice in the header");
  }

  std::string_view file_;
  std::uint64_t data_begin_;
  std::uint64_t data_bytes_;
  std::string tensor_;  // the one being read
  std::vector<TensorEntry> entries_;
};

}  // namespace

std::string_view to_string(DataType type) {
  return kTypes[static_cast<std::size_t>(type)].name;
}

std::size_t bytes_of(DataType type) {
  return kTypes[static_cast<std::size_t>(type)].bytes;
}

Result<std::vector<TensorEntry>> read_safetensors_header(std::span<const std::byte> file, std::string_view name) {
  const auto corrupt = [&](const std::string& what) {
    return fail(ErrorCode::kCorrupt, fmt::format("{}: {}", name, what));
  };
  if (file.size() < kLengthBytes) {
    return corrupt(
        fmt::format("{} bytes; a safetensors file begins with the 8-byte length of its header", file.size()));
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    length |= std::uint64_t{std::to_integer<std::uint8_t>(file[i])} << 8 * i;
  if (length > file.size() - kLengthBytes) {
    return corrupt(
        fmt::format("a header of {} bytes in a file of {}: cut short, or no safetensors file", length, file.size()));
  }
  if (length > kMaxHeaderBytes)
    return corrupt(fmt::format("a header of {} bytes; at most {}", length, kMaxHeaderBytes));
  // The format requires the brace first, but simdjson would skip white space before it.
  if (length == 0 || file[kLengthBytes] != std::byte{'{'}) return corrupt("the header must begin with '{'");

  JsonDocument document(
      {.name = std::string(name), .root = "header", .most_bytes = kMaxHeaderBytes, .most_depth = kJsonDepth});
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  KVIST_TRY(const JsonObject header, document.parse_object(text));
  const std::uint64_t data_begin = kLengthBytes + length;
  return HeaderReader(name, data_begin, file.size() - data_begin).read(header);
}

}  // namespace kvist::engine::cpu

#include "kvist/engine/cpu/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

namespace kvist::engine::cpu {
namespace {

using simdjson::SUCCESS;
using simdjson::dom::element;
using simdjson::dom::object;

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kJsonDepth = 8;         // a valid header has 3: object, tensor, list
constexpr std::size_t kMinJsonCapacity = 64;  // simdjson refuses parsers for less than 32 bytes
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

  Result<std::vector<TensorEntry>> read(object header) {
    for (const auto field : header) {
      if (field.key == "__metadata__") {
        KVIST_TRY_VOID(check_metadata(field.value));
      } else {
        tensor_ = field.key;
        KVIST_TRY(TensorEntry entry, read_entry(field.value));
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

  Result<void> check_metadata(element value) const {
    object metadata;
    if (value.get(metadata) != SUCCESS) {
      return fail(ErrorCode::kCorrupt, fmt::format("{}: __metadata__: expected an object of strings", file_));
    }
    for (const auto field : metadata) {
      if (!field.value.is_string()) {
        return fail(ErrorCode::kCorrupt, fmt::format("{}: __metadata__: expected strings only", file_));
      }
    }
    return {};
  }

  Result<TensorEntry> read_entry(element value) {
    object fields;
    if (value.get(fields) != SUCCESS) return corrupt("expected an object with dtype, shape and data_offsets");
    if (fields.size() != 3) return corrupt("expected exactly the fields dtype, shape and data_offsets");
    TensorEntry entry;
    entry.name = tensor_;
    std::string_view type_name;
    if (fields["dtype"].get(type_name) != SUCCESS) return corrupt("dtype: expected a string");
    const auto type = data_type(type_name);
    if (!type) return corrupt(fmt::format("dtype: '{}' is none of the format's", type_name.substr(0, 20)));
    entry.type = *type;
    KVIST_TRY(entry.shape, numbers(fields, "shape", kMaxDimensions));
    KVIST_TRY(const std::vector<std::uint64_t> offsets, numbers(fields, "data_offsets", 2));
    if (offsets.size() != 2) return corrupt("data_offsets: expected [begin, end]");
    if (offsets[0] > offsets[1] || offsets[1] > data_bytes_) {
      return corrupt(fmt::format("data_offsets: [{}, {}) is not within the file's {} bytes of data", offsets[0],
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

  Result<std::vector<std::uint64_t>> numbers(object fields, std::string_view key, std::size_t at_most) const {
    simdjson::dom::array list;
    if (fields[key].get(list) != SUCCESS) return corrupt(fmt::format("{}: expected a list of numbers", key));
    std::vector<std::uint64_t> out;
    for (const element item : list) {
      std::uint64_t n = 0;
      // simdjson gives no unsigned number for a negative one or one with a fraction.
      if (item.get(n) != SUCCESS) return corrupt(fmt::format("{}: expected whole numbers from 0", key));
      if (out.size() == at_most) return corrupt(fmt::format("{}: more than {} numbers", key, at_most));
      out.push_back(n);
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

  // simdjson reads past the end, so it needs a padded copy.
  std::string text(length + simdjson::SIMDJSON_PADDING, '\0');
  std::memcpy(text.data(), file.data() + kLengthBytes, length);
  simdjson::dom::parser parser(kMaxHeaderBytes);
  if (parser.allocate(std::max<std::uint64_t>(length, kMinJsonCapacity), kJsonDepth) != SUCCESS) {
    return fail(ErrorCode::kResourceExhausted, fmt::format("{}: no memory to parse the header", name));
  }
  object header;
  if (const auto code = parser.parse(text.data(), length, false).get(header); code != SUCCESS) {
    return corrupt(fmt::format("the header is no JSON object: {}", simdjson::error_message(code)));
  }
  const std::uint64_t data_begin = kLengthBytes + length;
  return HeaderReader(name, data_begin, file.size() - data_begin).read(header);
}

}  // namespace kvist::engine::cpu

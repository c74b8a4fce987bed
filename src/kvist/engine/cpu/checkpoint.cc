#include "kvist/engine/cpu/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "kvist/base/json.h"

namespace kvist::engine::cpu {
namespace {

constexpr std::string_view kSingle = "model.safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";
constexpr std::size_t kMaxIndexBytes = 16U << 20;

/// A file name without a path, so that an index cannot make us open files of another folder.
bool is_plain_file_name(std::string_view name) {
  return name.ends_with(".safetensors") && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos && !name.starts_with('.');
}

/// (tensor, file) by tensor; no tensor twice.
using WeightMap = std::vector<std::pair<std::string, std::string>>;

Result<WeightMap> read_weight_map(std::span<const std::byte> bytes) {
  JsonDocument document({.name = std::string(kIndex), .most_bytes = kMaxIndexBytes});
  KVIST_TRY(const JsonObject root, document.parse_object({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  KVIST_TRY(const JsonObject map, root.require_object("weight_map"));
  WeightMap out;
  for (const auto [tensor, value] : map) {
    const std::optional<std::string_view> file = value.if_string();
    if (!file || !is_plain_file_name(*file)) {
      return value.wrong("expected the name of a .safetensors file in the same folder");
    }
    out.emplace_back(tensor, *file);
  }
  if (out.empty()) return map.value().wrong("names no tensor");
  std::sort(out.begin(), out.end());
  const auto twice =
      std::adjacent_find(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice != out.end()) return map.value().wrong(fmt::format("{} is named twice", in_quotes(twice->first)));
  return out;
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::string& directory) {
  Checkpoint checkpoint;
  const std::filesystem::path folder(directory);
  if (std::filesystem::exists(folder / kSingle)) {
    KVIST_TRY_VOID(checkpoint.add_shard(directory, std::string(kSingle)));
  } else {
    auto index = MappedFile::open((folder / kIndex).string());
    if (!index) {
      return fail(ErrorCode::kNotFound,
                  fmt::format("{}: holds neither {} nor {}; only safetensors checkpoints are read (others convert with "
                              "save_pretrained(..., safe_serialization=True))",
                              directory, kSingle, kIndex));
    }
    KVIST_TRY_VOID(checkpoint.open_index(directory, *index));
  }
  std::sort(checkpoint.entries_.begin(), checkpoint.entries_.end(),
            [](const Entry& a, const Entry& b) { return a.tensor.name < b.tensor.name; });
  return checkpoint;
}

Result<void> Checkpoint::add_shard(const std::string& directory, const std::string& name) {
  KVIST_TRY(MappedFile file, MappedFile::open((std::filesystem::path(directory) / name).string()));
  KVIST_TRY(std::vector<TensorEntry> tensors, read_safetensors_header(file.bytes(), name));
  for (TensorEntry& tensor : tensors) entries_.push_back({std::move(tensor), shards_.size()});
  shards_.push_back({name, std::move(file)});
  return {};
}

Result<void> Checkpoint::open_index(const std::string& directory, const MappedFile& index) {
  KVIST_TRY(const WeightMap map, read_weight_map(index.bytes()));
  std::vector<std::string> files;
  for (const auto& [tensor, file] : map) files.push_back(file);
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  if (files.size() > kMaxShards) {
    return fail(ErrorCode::kCorrupt, fmt::format("{}: names {} files; at most {}", kIndex, files.size(), kMaxShards));
  }
  for (const std::string& file : files) KVIST_TRY_VOID(add_shard(directory, file));

  // The index says which file a tensor is taken from; each that it names must be there.
  const auto by_place = [&](const Entry& a, const Entry& b) {
    return std::pair(std::string_view(a.tensor.name), a.shard) < std::pair(std::string_view(b.tensor.name), b.shard);
  };
  std::sort(entries_.begin(), entries_.end(), by_place);
  std::vector<Entry> named;
  for (const auto& [tensor, file] : map) {
    Entry wanted;
    wanted.tensor.name = tensor;
    wanted.shard = static_cast<std::size_t>(std::lower_bound(files.begin(), files.end(), file) - files.begin());
    const auto found = std::lower_bound(entries_.begin(), entries_.end(), wanted, by_place);
    if (found == entries_.end() || found->tensor.name != tensor || found->shard != wanted.shard) {
      return fail(ErrorCode::kCorrupt, fmt::format("{}: tensor '{}' is not in {}, which the index names for it", kIndex,
                                                   tensor.substr(0, 100), file));
    }
    named.push_back(*found);
  }
  entries_ = std::move(named);
  return {};
}

const Checkpoint::Entry* Checkpoint::find(std::string_view name) const {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), name,
                                   [](const Entry& entry, std::string_view n) { return entry.tensor.name < n; });
  return at != entries_.end() && at->tensor.name == name ? &*at : nullptr;
}

Result<TensorView> Checkpoint::tensor(std::string_view name, std::span<const std::uint64_t> shape) const {
  const Entry* const entry = find(name);
  if (entry == nullptr) {
    return fail(ErrorCode::kNotFound,
                fmt::format("{}: no tensor '{}', of shape {}", shards_.front().name, name, shape));
  }
  const auto& [tensor, shard] = *entry;
  if (!std::ranges::equal(tensor.shape, shape)) {
    return fail(ErrorCode::kCorrupt, fmt::format("{}: tensor '{}': shape {}, config.json says {}", shards_[shard].name,
                                                 name, tensor.shape, shape));
  }
  if (tensor.type != DataType::kF32 && tensor.type != DataType::kF16 && tensor.type != DataType::kBf16) {
    return fail(ErrorCode::kUnsupported, fmt::format("{}: tensor '{}': dtype {}; F32, F16 and BF16 are supported",
                                                     shards_[shard].name, name, to_string(tensor.type)));
  }
  return TensorView{tensor.type, tensor.shape,
                    shards_[shard].file.bytes().subspan(tensor.begin, tensor.end - tensor.begin)};
}

std::uint64_t Checkpoint::file_bytes() const {
  std::uint64_t sum = 0;
  for (const Shard& shard : shards_) sum += shard.file.bytes().size();
  return sum;
}

}  // namespace kvist::engine::cpu

#include "kvist/cli/load_arguments_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "kvist/base/json.h"
#include "kvist/base/json_writer.h"
#include "kvist/cli/loadgen_content.h"

namespace kvist::cli {
namespace {

constexpr std::size_t kMostTextBytes = 16'384;
constexpr std::size_t kMostListed = 1'000;

/// Calls `plain(name, member)` for each option that is told as it is, and `file(name, member)` for each that names a
/// file: one place for both directions.
template <class Arguments, class Plain, class File>
void each_option(Arguments& a, Plain plain, File file) {
  plain("target", a.target);
  plain("model", a.model);
  plain("concurrency", a.concurrency);
  plain("rate", a.rate);
  plain("arrivals", a.arrivals);
  plain("variation", a.variation);
  plain("burst_size", a.burst_size);
  plain("rate_profile", a.profile);
  plain("max_in_flight", a.max_in_flight);
  plain("max_start_rate", a.max_start_rate);
  plain("requests", a.requests);
  plain("seed", a.seed);
  plain("timeout", a.timeout);
  plain("characters_per_token", a.characters_per_token);
  plain("input_tokens", a.input_tokens);
  plain("output_tokens", a.output_tokens);
  plain("turns", a.turns);
  plain("follow_up_tokens", a.follow_up_tokens);
  plain("replies", a.replies);
  plain("prefixes", a.prefixes);
  plain("prefix_groups", a.prefix_groups);
  plain("prefix_tokens", a.prefix_tokens);
  plain("prefix_skew", a.prefix_skew);
  plain("think_time", a.think_time);
  plain("concurrency_of", a.concurrency_of);
  plain("prompt_ids", a.prompt_ids);
  plain("ignore_eos", a.ignore_eos);
  plain("path", a.path);
  plain("headers", a.headers);
  file("workload_file", a.workload_file);
  file("dataset", a.dataset);
  file("tokenizer", a.tokenizer);
  file("follow_ups", a.follow_ups);
}

class Teller {
 public:
  void plain(std::string_view name, const std::string& value) {
    if (!value.empty()) json_.field(name, value);
  }
  void plain(std::string_view name, bool value) {
    if (value) json_.field(name, value);
  }
  template <class T>
  void plain(std::string_view name, const std::optional<T>& value) {
    if (value) json_.field(name, *value);
  }
  void plain(std::string_view name, const std::vector<std::string>& values) {
    if (values.empty()) return;
    json_.key(name).begin_array();
    for (const std::string& value : values) json_.value(value);
    json_.end_array();
  }
  void file(std::string_view name, const std::string& path) {
    if (path.empty() || failed_) return;
    const Result<std::string> digest = add_file(path);
    if (digest) {
      json_.field(name, *digest);
    } else {
      failed_ = digest.error();
    }
  }
  /// "3:chat.yaml" with a digest in place of the file.
  [[nodiscard]] Result<void> mix(const std::vector<std::string>& parts) {
    if (parts.empty()) return {};
    json_.key("mix").begin_array();
    for (const std::string& part : parts) {
      const std::size_t colon = part.find(':');
      if (colon == std::string::npos) return fail(ErrorCode::kInvalidArgument, "--mix: want WEIGHT:FILE");
      KVIST_TRY(const std::string digest, add_file(part.substr(colon + 1)));
      json_.value(part.substr(0, colon + 1) + digest);
    }
    json_.end_array();
    return {};
  }
  [[nodiscard]] Result<ToldLoad> finish() {
    if (failed_) return std::unexpected(*failed_);
    json_.end_object();
    return ToldLoad{.order = json_.take(), .files = std::move(files_)};
  }

  Teller() { json_.begin_object(); }

 private:
  [[nodiscard]] Result<std::string> add_file(const std::string& named) {
    std::error_code failed;
    const bool folder = std::filesystem::is_directory(named, failed);  // of a model, of which the tokenizer counts
    const std::string path = folder ? named + "/tokenizer.json" : named;
    KVIST_TRY(std::string digest, digest_of(path));
    const std::uint64_t bytes = std::filesystem::file_size(path, failed);
    if (failed) return fail(ErrorCode::kNotFound, path + ": " + failed.message());
    if (std::ranges::find(files_, digest, &loadgen::OrderedFile::sha256) == files_.end()) {
      files_.push_back({.path = path, .sha256 = digest, .bytes = bytes});
    }
    return digest;
  }

  JsonWriter json_;
  std::vector<loadgen::OrderedFile> files_;
  std::optional<Error> failed_;
};

class Reader {
 public:
  using PathOf = std::function<Result<std::string>(const std::string& digest)>;
  Reader(const JsonObject& object, const PathOf& path_of) : object_(object), path_of_(path_of) {}

  void plain(std::string_view name, std::string& value) {
    if (const auto text = take(object_.find_string(name))) value = checked(name, *text);
  }
  void plain(std::string_view name, bool& value) {
    if (const auto flag = take(object_.find_bool(name))) value = *flag;
  }
  void plain(std::string_view name, std::optional<double>& value) {
    constexpr double kMost = 1e12;
    value = take(object_.find_double(name, -kMost, kMost));
  }
  template <std::unsigned_integral T>
  void plain(std::string_view name, std::optional<T>& value) {
    const auto number = take(object_.find_unsigned(name, 0, std::numeric_limits<T>::max()));
    if (number) value = static_cast<T>(*number);
  }
  void plain(std::string_view name, std::vector<std::string>& values) {
    const auto array = take(object_.find_array(name));
    if (!array) return;
    if (array->size() > kMostListed) return note(object_.wrong(name, "has too many entries"));
    for (const JsonValue value : *array) {
      const Result<std::string_view> text = value.as_string();
      if (!text) return note(std::unexpected(text.error()));
      values.push_back(checked(name, *text));
    }
  }
  void file(std::string_view name, std::string& path) {
    const auto digest = take(object_.find_string(name));
    if (digest) path = path_of(std::string(*digest));
  }
  void mix(std::vector<std::string>& parts) {
    plain("mix", parts);
    for (std::string& part : parts) {
      const std::size_t colon = part.find(':');
      if (colon == std::string::npos) return note(object_.wrong("mix", "want a weight and a digest"));
      part = part.substr(0, colon + 1) + path_of(part.substr(colon + 1));
    }
  }
  [[nodiscard]] Result<void> finish() const {
    if (failed_) return std::unexpected(*failed_);
    return object_.finish();
  }

 private:
  template <class T>
  std::optional<T> take(Result<std::optional<T>> found) {
    if (found) return *std::move(found);
    note(std::unexpected(found.error()));
    return std::nullopt;
  }
  std::string checked(std::string_view name, std::string_view text) {
    if (text.size() > kMostTextBytes) note(object_.wrong(name, "is too long"));
    return std::string(text.substr(0, kMostTextBytes));
  }
  std::string path_of(const std::string& digest) {
    const Result<std::string> path = path_of_(digest);
    if (path) return *path;
    note(std::unexpected(path.error()));
    return {};
  }
  void note(std::unexpected<Error> error) {
    if (!failed_) failed_ = std::move(error).error();
  }

  const JsonObject& object_;
  const PathOf& path_of_;
  std::optional<Error> failed_;
};

}  // namespace

Result<ToldLoad> told_load(const LoadgenArguments& arguments) {
  Teller teller;
  each_option(
      arguments, [&](std::string_view name, const auto& value) { teller.plain(name, value); },
      [&](std::string_view name, const std::string& path) { teller.file(name, path); });
  KVIST_TRY_VOID(teller.mix(arguments.mix));
  return teller.finish();
}

Result<LoadgenArguments> parse_told_load(std::string_view json,
                                         const std::function<Result<std::string>(const std::string& digest)>& path_of) {
  JsonDocument document({.root = "order", .wrong = ErrorCode::kInvalidArgument});
  KVIST_TRY(const JsonObject object, document.parse_object(json));
  LoadgenArguments arguments;
  Reader reader(object, path_of);
  each_option(
      arguments, [&](std::string_view name, auto& value) { reader.plain(name, value); },
      [&](std::string_view name, std::string& path) { reader.file(name, path); });
  reader.mix(arguments.mix);
  KVIST_TRY_VOID(reader.finish());
  return arguments;
}

}  // namespace kvist::cli

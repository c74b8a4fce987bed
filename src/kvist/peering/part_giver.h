// Hands workers' parts of this gateway's index to gateways that ask for them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kvist/base/time.h"
#include "kvist/peering/index_message.h"

namespace kvist::peering {

/// A part that was taken out of the index, ready to be sent.
struct ExportedPart {
  kv::StreamPosition position = {};
  std::uint32_t blocks = 0;
  std::vector<std::string> pieces = {};  ///< by encode_piece()
};

/// Cumulative.
struct GivenCounters {
  std::uint64_t parts = 0;  ///< whose last piece was sent
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;
  std::array<std::uint64_t, kPartRefusals> refused{};
  std::uint64_t unreadable = 0;
};

/// One part at a time, of one worker, for one gateway: the others are told to come later. A part is kept until the
/// gateway says that it has it, or says nothing for kPatience. Threads: one.
class PartGiver {
 public:
  static constexpr Duration kPatience = std::chrono::seconds(3);

  /// `find`: the worker of that key.
  PartGiver(std::uint32_t block_size, kv::BlockHash root, std::function<std::optional<WorkerId>(WorkerKey)> find)
      : block_size_(block_size), root_(root), find_(std::move(find)) {}

  struct Answer {
    std::string to;  ///< as the request said
    std::string bytes;
  };
  /// The owner is to take the worker's part out of the index and to call on_exported(), in any case.
  struct Export {
    WorkerId worker;
  };
  using Action = std::variant<std::monostate, Answer, Export>;

  [[nodiscard]] Action on_request(std::span<const std::uint8_t> bytes, const std::string& reply_to, TimePoint now);
  /// Requires: Export was returned, and this was not called since.
  [[nodiscard]] Action on_exported(std::variant<PartRefusal, ExportedPart> result, TimePoint now);
  /// Drops a part for which nobody asks any more. To be called every now and then.
  void expire(TimePoint now);

  [[nodiscard]] bool is_giving() const { return transfer_.has_value(); }
  [[nodiscard]] const GivenCounters& counters() const { return counters_; }

 private:
  struct Transfer {
    std::string gateway;
    std::uint64_t run = 0;
    TransferId id = {};
    WorkerKey worker = {};
    std::string reply_to;
    std::optional<ExportedPart> part;  // nothing: it is being taken out of the index
    bool is_complete = false;          // its last piece was sent
    TimePoint touched = {};
  };
  [[nodiscard]] Action begin(const IndexRequest& request, const AskPart& ask, const std::string& reply_to,
                             TimePoint now);
  [[nodiscard]] Action give(const IndexRequest& request, std::uint32_t number, const std::string& reply_to,
                            TimePoint now);
  [[nodiscard]] Answer head(const std::string& reply_to) const;
  [[nodiscard]] Answer refuse(PartRefusal refusal, TransferId transfer, const std::string& reply_to);
  [[nodiscard]] bool is_current(const IndexRequest& request) const;

  std::uint32_t block_size_;
  kv::BlockHash root_;
  std::function<std::optional<WorkerId>(WorkerKey)> find_;
  std::optional<Transfer> transfer_;
  GivenCounters counters_;
};

}  // namespace kvist::peering

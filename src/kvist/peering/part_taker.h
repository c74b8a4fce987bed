// Gets workers' parts of the index from other gateways.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kvist/base/time.h"
#include "kvist/peering/index_message.h"

namespace kvist::peering {

/// Cumulative.
struct TakenCounters {
  std::uint64_t parts = 0;  ///< that are in the index
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;  ///< of all answers
  /// Attempts that came to nothing, by reason: a PartRefusal, "no_answer", "unreadable", or, once it was the case, why
  /// the part could not be used.
  std::map<std::string, std::uint64_t, std::less<>> failures = {};
};

/// For each worker of which events were lost, asks one gateway after the other for its part, and pulls the pieces one
/// after the other, so that what is under way is one piece. If no gateway has it, all are asked again after a pause,
/// which doubles; and at once when another gateway is heard for the first time. One worker at a time. Threads: one.
class PartTaker {
 public:
  static constexpr Duration kHeadTime = std::chrono::seconds(5);   ///< it has to be taken out of the index first
  static constexpr Duration kPieceTime = std::chrono::seconds(1);  ///< asked for once more then
  static constexpr Duration kBusyPause = std::chrono::milliseconds(200);
  static constexpr Duration kFirstPause = std::chrono::seconds(1);
  static constexpr Duration kLongestPause = std::chrono::seconds(30);

  /// `name`, `run`: this gateway's.
  PartTaker(std::string name, std::uint64_t run, std::uint32_t block_size, kv::BlockHash root);

  /// A request that is to be sent.
  struct Ask {
    std::string gateway;
    std::string bytes;
  };
  /// The worker's frames are to be kept from here on, because a part is about to be asked for; or no more.
  struct KeepFrames {
    WorkerId worker;
    bool keep = true;
  };
  /// The part is to be put into the index; then on_imported() is to be called, in any case.
  struct Import {
    WorkerId worker;
    std::shared_ptr<const WorkerPart> part;
  };
  using Action = std::variant<Ask, KeepFrames, Import>;
  using Actions = std::vector<Action>;

  /// The worker's part is wanted from here on, or not any more. poll() comes next.
  void want(WorkerId worker, WorkerKey key, TimePoint now);
  void leave(WorkerId worker);
  /// The other gateways that are heard. poll() comes next.
  void set_gateways(std::vector<std::string> gateways, TimePoint now);

  [[nodiscard]] Actions on_answer(std::span<const std::uint8_t> bytes, TimePoint now);
  /// `problem`: why the part is not in the index; empty: it is.
  [[nodiscard]] Actions on_imported(std::string_view problem, TimePoint now);
  /// What is due. To be called at due().
  [[nodiscard]] Actions poll(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> due() const;

  [[nodiscard]] std::size_t wanted() const { return wanted_.size(); }
  /// The worker whose part is being taken, and from whom.
  struct Current {
    WorkerId worker;
    std::string gateway;
    std::size_t pieces = 0;  ///< that have come
  };
  [[nodiscard]] std::optional<Current> current() const;
  /// Why the last attempt came to nothing: "gateway-b: not_exact"; empty: none did since the last part was taken.
  [[nodiscard]] const std::string& last_problem() const { return last_problem_; }
  [[nodiscard]] const TakenCounters& counters() const { return counters_; }

 private:
  /// Of all pieces: more than any part has.
  static constexpr std::size_t kMaxPartBytes = std::size_t{256} << 20;

  struct Wanted {
    WorkerKey key = {};
    TimePoint due = {};
    Duration pause = kFirstPause;
  };
  struct Taking {
    WorkerId worker = {};
    WorkerKey key = {};
    std::vector<std::string> gateways = {};  // still to be asked; the last is next
    std::string gateway = {};
    TransferId transfer = {};
    std::shared_ptr<WorkerPart> part = {};  // null: its head has not come
    std::size_t blocks = 0;
    std::size_t bytes = 0;
    bool asked_again = false;  // for the next piece
    bool was_busy = false;     // some gateway
    bool importing = false;
    TimePoint deadline = {};
  };
  void start(Actions& actions, WorkerId worker, const Wanted& wanted, TimePoint now);
  void ask_next(Actions& actions, TimePoint now);
  void ask_piece(Actions& actions, TimePoint now);
  void take_head(Actions& actions, const PartHead& head, TimePoint now);
  void take_piece(Actions& actions, NumberedPiece piece, TimePoint now);
  void complete(Actions& actions);
  void fail_at(Actions& actions, std::string_view reason, TimePoint now);
  void put_off(TimePoint now);
  void note_failure(std::string_view reason);
  [[nodiscard]] Ask request(std::variant<AskPart, AskPiece, EndOfAsking> what) const;

  std::string name_;
  std::uint64_t run_;
  std::uint32_t block_size_;
  kv::BlockHash root_;
  std::vector<std::string> gateways_;
  std::string last_good_;  // the gateway that gave the last part
  std::map<WorkerId, Wanted> wanted_;
  std::optional<Taking> taking_;
  std::uint64_t transfers_ = 0;
  std::string last_problem_;
  TakenCounters counters_;
};

}  // namespace kvist::peering

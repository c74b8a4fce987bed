#include "kvist/net/zmtp_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kvist/net/zmtp_frame.h"

namespace kvist::net {

namespace {

constexpr std::size_t kGreetingBytes = 64;
constexpr std::size_t kSignatureEnd = 9;
constexpr std::size_t kMajor = 10;
constexpr std::size_t kMinor = 11;
constexpr std::size_t kMechanism = 12;
constexpr std::size_t kMechanismBytes = 20;

std::unexpected<Error> broken(std::string what) {
  return fail(ErrorCode::kInvalidArgument, std::move(what));
}

/// Moves bytes from the front of `from` until `to` has `size`.
void fill(std::string& to, std::string_view& from, std::size_t size) {
  const std::size_t count = std::min(size - std::min(size, to.size()), from.size());
  to.append(from.substr(0, count));
  from.remove_prefix(count);
}

/// Takes a text with its length in one byte before it. False: there is none.
bool take_short_text(std::string_view& from, std::string_view& text) {
  if (from.empty()) return false;
  const auto size = static_cast<unsigned char>(from[0]);
  if (from.size() < 1U + size) return false;
  text = from.substr(1, size);
  from.remove_prefix(1U + size);
  return true;
}

/// The same with a length of four bytes, big-endian.
bool take_long_text(std::string_view& from, std::string_view& text) {
  if (from.size() < 4) return false;
  std::uint64_t size = 0;
  for (int i = 0; i < 4; ++i) size = size << 8 | static_cast<unsigned char>(from[static_cast<std::size_t>(i)]);
  if (from.size() - 4 < size) return false;
  text = from.substr(4, size);
  from.remove_prefix(4 + size);
  return true;
}

}  // namespace

Result<void> ZmtpDecoder::feed(std::string_view bytes, Sink& sink) {
  while (!bytes.empty()) {
    if (!greeted_) {
      KVIST_TRY_VOID(read_greeting(bytes));
      continue;
    }
    if (!in_frame_) {
      KVIST_TRY_VOID(read_frame_head(bytes));
      if (!in_frame_) continue;
    }
    fill(frame_, bytes, now_.size);
    if (frame_.size() == now_.size) KVIST_TRY_VOID(end_frame(sink));
  }
  return {};
}

Result<void> ZmtpDecoder::read_greeting(std::string_view& bytes) {
  fill(head_, bytes, kGreetingBytes);
  KVIST_TRY_VOID(check_greeting());
  if (head_.size() < kGreetingBytes) return {};
  heartbeats_ = head_[kMajor] > 3 || head_[kMinor] >= 1;
  head_.clear();
  greeted_ = true;
  return {};
}

// As soon as the bytes are there, because a peer that speaks something else may never send 64.
Result<void> ZmtpDecoder::check_greeting() const {
  if (head_[0] != '\xff' || (head_.size() > kSignatureEnd && (head_[kSignatureEnd] & 1) == 0))
    return broken("it does not speak ZeroMQ's protocol (ZMTP)");
  if (head_.size() <= kMajor) return {};
  if (const auto major = static_cast<unsigned char>(head_[kMajor]); major < 3)
    return broken(fmt::format("it speaks version {} of ZeroMQ's protocol, not 3 or later", major));
  if (head_.size() < kMechanism + kMechanismBytes) return {};
  std::string_view mechanism(head_.data() + kMechanism, kMechanismBytes);
  mechanism = mechanism.substr(0, mechanism.find('\0'));
  const bool printable = std::ranges::all_of(mechanism, [](char c) { return c > ' ' && c < '\x7f'; });
  if (mechanism != "NULL")
    return broken(
        fmt::format("it wants the security mechanism {}, not NULL", printable ? mechanism : "(not printable)"));
  return {};
}

Result<void> ZmtpDecoder::read_frame_head(std::string_view& bytes) {
  fill(head_, bytes, 1);
  const auto flags = static_cast<unsigned char>(head_[0]);
  if ((flags & ~(ZmtpFlags::kMore | ZmtpFlags::kLong | ZmtpFlags::kCommand)) != 0 ||
      ((flags & ZmtpFlags::kCommand) != 0 && (flags & ZmtpFlags::kMore) != 0))
    return broken(fmt::format("a frame has the flags 0x{:02x}", flags));
  const std::size_t size_bytes = (flags & ZmtpFlags::kLong) != 0 ? 8 : 1;
  fill(head_, bytes, 1 + size_bytes);
  if (head_.size() < 1 + size_bytes) return {};
  now_ = {.more = (flags & ZmtpFlags::kMore) != 0, .command = (flags & ZmtpFlags::kCommand) != 0, .size = 0};
  for (std::size_t i = 1; i <= size_bytes; ++i) now_.size = now_.size << 8 | static_cast<unsigned char>(head_[i]);
  head_.clear();
  KVIST_TRY_VOID(check_frame());
  in_frame_ = true;
  return {};
}

Result<void> ZmtpDecoder::check_frame() const {
  if (now_.command && now_.size > limits_.command_bytes)
    return broken(fmt::format("a command of {} bytes ({} are the most)", now_.size, limits_.command_bytes));
  if (now_.command) return {};
  if (!ready_) return broken("a message before the end of the handshake");
  if (now_.size > limits_.message_bytes - message_bytes_)
    return broken(fmt::format("a message of more than {} bytes", limits_.message_bytes));
  if (message_.size() >= limits_.frames) return broken(fmt::format("a message of more than {} frames", limits_.frames));
  return {};
}

Result<void> ZmtpDecoder::end_frame(Sink& sink) {
  in_frame_ = false;
  if (now_.command) {
    auto taken = take_command(sink);
    frame_.clear();
    return taken;
  }
  message_bytes_ += frame_.size();
  message_.push_back(std::exchange(frame_, {}));
  if (now_.more) return {};
  message_bytes_ = 0;
  sink.on_message(message_);
  message_.clear();
  return {};
}

Result<void> ZmtpDecoder::take_command(Sink& sink) {
  std::string_view data = frame_;
  std::string_view name;
  if (!take_short_text(data, name)) return broken("a command without a name");
  if (!ready_) return take_handshake(name, data, sink);
  // The first two bytes are a time to live, for servers that forget clients. Commands that are not known are ignored,
  // as later versions may have more.
  if (name == "PING" && data.size() >= 2) sink.on_ping(data.substr(2));
  return {};
}

Result<void> ZmtpDecoder::take_handshake(std::string_view name, std::string_view data, Sink& sink) {
  if (name == "ERROR") return broken("it refused the handshake");
  if (name != "READY") return broken("a command other than READY in the handshake");
  std::string_view type;
  while (!data.empty()) {
    std::string_view key;
    std::string_view value;
    if (!take_short_text(data, key) || !take_long_text(data, value))
      return broken("the properties of READY are malformed");
    if (key == "Socket-Type") type = value;
  }
  if (std::ranges::find(peer_types_, type) == peer_types_.end())
    return broken(fmt::format("its socket is not of the type {}", fmt::join(peer_types_, " or ")));
  ready_ = true;
  sink.on_handshake(heartbeats_);
  return {};
}

}  // namespace kvist::net

// The connection to the other gateways of the group.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/nats/client.h"
#include "kvist/net/event_loop.h"
#include "kvist/spec/deployment.h"

namespace kvist::gateway {

/// A model as all gateways call it in subjects and rows: 16 hexadecimal digits of a hash of its name.
[[nodiscard]] std::string peer_key(std::string_view name);

/// Carries messages between the models of this gateway and those of the others, and the rows of the table that all
/// share. Without a connection nothing is carried, and it is looked for until it is there again. Threads: the loop's;
/// the client's threads only post to it.
class PeerLink {
 public:
  /// Reads the files that `gateway.peers` names. Requires: `gateway.peers.is_given()`; the loop outlives this object.
  [[nodiscard]] static Result<std::unique_ptr<PeerLink>> create(net::EventLoop& loop, const spec::GatewaySpec& gateway);
  ~PeerLink();
  PeerLink(const PeerLink&) = delete;
  PeerLink& operator=(const PeerLink&) = delete;

  /// Errors: settings that cannot be used.
  [[nodiscard]] Result<void> start();

  /// What one model is told.
  struct Listener {
    std::string model;  ///< peer_key() of it
    std::function<void(std::span<const std::uint8_t> bytes)> on_message = {};
    std::function<void()> on_connected = {};
    /// Another gateway asks for something of the index; the answer goes to answer().
    std::function<void(std::span<const std::uint8_t> bytes, const std::string& reply_to)> on_request = {};
    /// An answer to ask(); empty: nobody was there.
    std::function<void(std::span<const std::uint8_t> bytes)> on_answer = {};
  };
  void add(const Listener* listener) { listeners_.push_back(listener); }
  void remove(const Listener* listener) { std::erase(listeners_, listener); }
  void on_row(std::function<void(const std::string& key, const std::optional<std::string>& value)> handler) {
    on_row_ = std::move(handler);
  }

  void send(const std::string& model, std::string_view bytes);
  /// Asks one gateway. Returns whether it was sent, as far as this end can tell.
  bool ask(const std::string& model, std::string_view gateway, std::string_view bytes);
  void answer(const std::string& reply_to, std::string_view bytes);
  /// Without a connection the last value of each key is written when there is one.
  void put_row(const std::string& key, const std::string& value);

  [[nodiscard]] const std::string& name() const { return name_; }
  /// Higher than that of every earlier process of this name, if its clock was right.
  [[nodiscard]] std::uint64_t run() const { return run_; }
  [[nodiscard]] Duration patience() const { return patience_; }

  struct Report {
    bool connected = false;
    std::string problem = {};        ///< why not
    std::string table_problem = {};  ///< why decisions are not shared; empty: they are, or there is no connection
    std::uint64_t connections = 0;
    std::uint64_t sent = 0;
    std::uint64_t sent_bytes = 0;
    std::uint64_t unsent = 0;   ///< messages for want of a connection
    std::uint64_t dropped = 0;  ///< messages that came faster than the loop took them
  };
  [[nodiscard]] Report report() const;

 private:
  /// What the client's threads may use for as long as they like.
  struct Home;

  PeerLink(net::EventLoop& loop, const spec::PeersSpec& peers, nats::ClientOptions options);
  [[nodiscard]] Result<void> connect();
  void on_message(const std::string& subject, const std::string& reply_to, std::string_view bytes);
  void count(bool was_sent, std::size_t bytes);
  void on_connection(bool connected, const std::string& problem);
  void look_after();

  net::EventLoop* loop_;
  nats::ClientOptions options_;
  std::string name_;
  std::uint64_t run_;
  // Of subjects: loads; requests for parts of indexes; answers to those of this gateway.
  std::string prefix_;
  std::string index_prefix_;
  std::string inbox_prefix_;
  Duration patience_;
  std::shared_ptr<Home> home_;
  std::vector<const Listener*> listeners_;
  std::function<void(const std::string&, const std::optional<std::string>&)> on_row_ =
      [](const std::string&, const std::optional<std::string>&) {};
  Report report_;
  net::Timer timer_;
  std::unique_ptr<nats::Client> client_;
  nats::Rows rows_;  // that are to be written; empty while there is a client, which has them
};

}  // namespace kvist::gateway

// A connection to NATS: messages by subject, and a table that outlasts who wrote it (JetStream key-value).
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"

namespace kvist::nats {

struct ClientOptions {
  std::string servers = {};                ///< "nats://host:port" or "tls://host:port", several with commas between
  std::string name = {};                   ///< as the server shows the connection
  std::vector<std::string> subjects = {};  ///< that are listened to, with wildcards
  std::string bucket = {};                 ///< of the table
  // Each empty for none.
  std::string credentials_file = {};  ///< JWT and seed, as `nsc` writes them
  std::string token = {};
  std::string user = {};
  std::string password = {};
  std::string ca = {};           ///< PEM file of the authorities to trust; empty: the system's
  std::string server_name = {};  ///< that the server's certificate has to be for; empty: the host of its address
  std::string certificate = {};  ///< PEM file of an own certificate
  std::string key = {};          ///< PEM file
};

/// What a client is told. Threads: called on the client's own threads, one call of each kind at a time, but for
/// messages, of which one of each subject that is listened to may come at a time.
struct ClientHandlers {
  /// `reply_to`: the subject to which an answer is to be sent; empty: none is expected. Empty bytes at such a subject
  /// of one's own: the server says that nobody listens where one has asked.
  std::function<void(std::string_view subject, std::string_view reply_to, std::string_view bytes)> on_message;
  /// `problem`: why there is no connection; empty if there is one.
  std::function<void(bool connected, const std::string& problem)> on_connection;
  /// A row of the table: those that are there when the connection comes, and each change. Nothing: it was deleted.
  std::function<void(const std::string& key, const std::optional<std::string>& value)> on_row;
  /// `problem`: why the table cannot be had; empty if it can.
  std::function<void(const std::string& problem)> on_table;
};

/// Rows of the table by their keys.
using Rows = std::map<std::string, std::string>;

/// Connects again by itself, whether the server was ever there or not, unless the server refuses it for what it is.
/// What is said while it is not there is not sent later, but for rows of the table: the newest of each key waits until
/// it can be written. Own messages are not heard. Threads: any calls it; it has threads of its own.
class Client {
 public:
  /// The longest value of a row.
  static constexpr std::size_t kMaxRowBytes = 1'024;
  /// Of more rows that wait, the one with the highest key is dropped.
  static constexpr std::size_t kMaxWaitingRows = 8'192;

  /// `rows` are written before any row is read. Errors: settings that cannot be used, such as a file that is not there.
  [[nodiscard]] static Result<std::unique_ptr<Client>> start(const ClientOptions& options, ClientHandlers handlers,
                                                             const Rows& rows = {});
  virtual ~Client() = default;

  /// Returns whether it was sent, as far as this end can tell.
  virtual bool publish(const std::string& subject, std::string_view bytes) = 0;
  /// The same, for a message to which an answer is expected.
  virtual bool ask(const std::string& subject, const std::string& reply_to, std::string_view bytes) = 0;
  /// The servers refused it for good: a new client may have better luck.
  [[nodiscard]] virtual bool has_ended() = 0;
  /// A value of more than kMaxRowBytes is not written.
  virtual void put_row(const std::string& key, const std::string& value) = 0;
  /// The rows that wait to be written: those of a client that has ended are for the next one.
  [[nodiscard]] virtual Rows unwritten_rows() = 0;
  /// Puts a row into `rows`, as put_row() does with those that wait.
  static void keep(Rows& rows, const std::string& key, const std::string& value);
};

}  // namespace kvist::nats

#include "kvist/nats/client.h"

#include <fmt/format.h>
#include <nats/nats.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace kvist::nats {
namespace {

constexpr std::int64_t kConnectMs = 2'000;
constexpr std::int64_t kReconnectMs = 500;
/// A server that says nothing for two of these is gone.
constexpr std::int64_t kPingMs = 2'000;
constexpr std::int64_t kTableMs = 2'000;
constexpr auto kTableAgain = std::chrono::seconds(1);
/// How long a row may wait for the table's thread.
constexpr std::int64_t kRowWaitMs = 50;
/// Of messages that were sent and are not on their way: none is to be sent when it is old.
constexpr int kUnsentBytes = 64 << 10;

template <class T, void (*kDestroy)(T*)>
struct Destroyer {
  void operator()(T* object) const { kDestroy(object); }
};
template <class T, void (*kDestroy)(T*)>
using Owned = std::unique_ptr<T, Destroyer<T, kDestroy>>;

using OptionsPointer = Owned<natsOptions, natsOptions_Destroy>;
using ConnectionPointer = Owned<natsConnection, natsConnection_Destroy>;
using SubscriptionPointer = Owned<natsSubscription, natsSubscription_Destroy>;
using JetStreamPointer = Owned<jsCtx, jsCtx_Destroy>;
using TablePointer = Owned<kvStore, kvStore_Destroy>;
using WatcherPointer = Owned<kvWatcher, kvWatcher_Destroy>;
using EntryPointer = Owned<kvEntry, kvEntry_Destroy>;

std::string text_of(natsStatus status) {
  return natsStatus_GetText(status);
}

class LibraryClient final : public Client {
 public:
  LibraryClient(ClientOptions options, ClientHandlers handlers, Rows rows)
      : options_(std::move(options)), handlers_(std::move(handlers)), rows_(std::move(rows)) {}

  ~LibraryClient() override {
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
    }
    changed_.notify_all();
    if (table_thread_.joinable()) table_thread_.join();
    if (connection_) natsConnection_Close(connection_.get());
    subscriptions_.clear();
    connection_.reset();
    // The library's thread tells of the end when it has come to it; from then on it calls nothing of this object.
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !open_; });
  }

  [[nodiscard]] Result<void> start() {
    natsOptions* made = nullptr;
    KVIST_TRY_VOID(check(natsOptions_Create(&made), "options"));
    const OptionsPointer options(made);
    KVIST_TRY_VOID(set(made));
    natsConnection* connection = nullptr;
    // Beforehand, because the server may refuse this client, and end the connection, before the call has returned.
    set_open(true);
    const natsStatus status = natsConnection_Connect(&connection, made);
    if (status != NATS_OK && status != NATS_NOT_YET_CONNECTED) {
      set_open(false);
      return fail(ErrorCode::kUnavailable, fmt::format("{}: {}", options_.servers, text_of(status)));
    }
    connection_.reset(connection);
    for (const std::string& subject : options_.subjects) {
      natsSubscription* subscription = nullptr;
      const natsStatus subscribed =
          natsConnection_Subscribe(&subscription, connection, subject.c_str(), &LibraryClient::on_message, this);
      // The server has refused this client in the meantime: has_ended() says so, and it is tried again.
      if (subscribed == NATS_CONNECTION_CLOSED) return {};
      KVIST_TRY_VOID(check(subscribed, subject));
      subscriptions_.emplace_back(subscription);
    }
    if (status == NATS_OK) set_connected(true, {});
    if (!options_.bucket.empty()) table_thread_ = std::thread([this] { keep_table(); });
    return {};
  }

  bool publish(const std::string& subject, std::string_view bytes) override {
    if (!connected_) return false;
    return natsConnection_Publish(connection_.get(), subject.c_str(), bytes.data(), static_cast<int>(bytes.size())) ==
           NATS_OK;
  }

  bool ask(const std::string& subject, const std::string& reply_to, std::string_view bytes) override {
    if (!connected_) return false;
    return natsConnection_PublishRequest(connection_.get(), subject.c_str(), reply_to.c_str(), bytes.data(),
                                         static_cast<int>(bytes.size())) == NATS_OK;
  }

  bool has_ended() override {
    const std::lock_guard lock(mutex_);
    return !open_;
  }

  void put_row(const std::string& key, const std::string& value) override {
    {
      const std::lock_guard lock(mutex_);
      keep(rows_, key, value);
    }
    changed_.notify_all();
  }

  Rows unwritten_rows() override {
    const std::lock_guard lock(mutex_);
    return rows_;
  }

 private:
  [[nodiscard]] static Result<void> check(natsStatus status, std::string_view what) {
    if (status == NATS_OK) return {};
    return fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}", what, text_of(status)));
  }

  [[nodiscard]] Result<void> set(natsOptions* options) {
    std::vector<std::string> servers;
    for (std::size_t begin = 0; begin <= options_.servers.size();) {
      const std::size_t end = std::min(options_.servers.find(',', begin), options_.servers.size());
      if (end > begin) servers.push_back(options_.servers.substr(begin, end - begin));
      begin = end + 1;
    }
    std::vector<const char*> pointers;
    for (const std::string& server : servers) pointers.push_back(server.c_str());
    if (pointers.empty()) return fail(ErrorCode::kInvalidArgument, "no server is named");
    KVIST_TRY_VOID(
        check(natsOptions_SetServers(options, pointers.data(), static_cast<int>(pointers.size())), options_.servers));
    const auto all = [](std::initializer_list<natsStatus> statuses) {
      for (const natsStatus status : statuses)
        if (status != NATS_OK) return status;
      return NATS_OK;
    };
    KVIST_TRY_VOID(
        check(all({natsOptions_SetName(options, options_.name.c_str()), natsOptions_SetNoEcho(options, true),
                   natsOptions_SetTimeout(options, kConnectMs), natsOptions_SetAllowReconnect(options, true),
                   natsOptions_SetMaxReconnect(options, -1), natsOptions_SetReconnectWait(options, kReconnectMs),
                   natsOptions_SetReconnectBufSize(options, kUnsentBytes),
                   natsOptions_SetPingInterval(options, kPingMs), natsOptions_SetMaxPingsOut(options, 2),
                   natsOptions_SetSendAsap(options, true), natsOptions_SetFailRequestsOnDisconnect(options, true),
                   natsOptions_SetRetryOnFailedConnect(options, true, &LibraryClient::on_connected, this),
                   natsOptions_SetReconnectedCB(options, &LibraryClient::on_connected, this),
                   natsOptions_SetDisconnectedCB(options, &LibraryClient::on_disconnected, this),
                   natsOptions_SetClosedCB(options, &LibraryClient::on_closed, this),
                   natsOptions_SetErrorHandler(options, &LibraryClient::on_error, this)}),
              "options"));
    return set_identity(options);
  }

  [[nodiscard]] Result<void> set_identity(natsOptions* options) {
    if (!options_.credentials_file.empty())
      KVIST_TRY_VOID(check(natsOptions_SetUserCredentialsFromFiles(options, options_.credentials_file.c_str(), nullptr),
                           options_.credentials_file));
    if (!options_.token.empty()) KVIST_TRY_VOID(check(natsOptions_SetToken(options, options_.token.c_str()), "token"));
    if (!options_.user.empty())
      KVIST_TRY_VOID(check(natsOptions_SetUserInfo(options, options_.user.c_str(), options_.password.c_str()), "user"));
    const bool is_secure =
        options_.servers.find("tls://") != std::string::npos || !options_.ca.empty() || !options_.certificate.empty();
    if (!is_secure) return {};
    KVIST_TRY_VOID(check(natsOptions_SetSecure(options, true), "tls"));
    if (!options_.ca.empty())
      KVIST_TRY_VOID(check(natsOptions_LoadCATrustedCertificates(options, options_.ca.c_str()), options_.ca));
    if (!options_.certificate.empty())
      KVIST_TRY_VOID(
          check(natsOptions_LoadCertificatesChain(options, options_.certificate.c_str(), options_.key.c_str()),
                options_.certificate));
    if (options_.server_name.empty()) return {};
    return check(natsOptions_SetExpectedHostname(options, options_.server_name.c_str()), options_.server_name);
  }

  static LibraryClient& of(void* closure) { return *static_cast<LibraryClient*>(closure); }
  static void on_message(natsConnection* /*connection*/, natsSubscription* /*subscription*/, natsMsg* message,
                         void* closure) {
    const char* const reply_to = natsMsg_GetReply(message);
    of(closure).handlers_.on_message(
        natsMsg_GetSubject(message), reply_to != nullptr ? reply_to : "",
        std::string_view(natsMsg_GetData(message), static_cast<std::size_t>(natsMsg_GetDataLength(message))));
    natsMsg_Destroy(message);
  }
  static void on_connected(natsConnection* /*connection*/, void* closure) { of(closure).set_connected(true, {}); }
  static void on_disconnected(natsConnection* connection, void* closure) {
    const char* last = nullptr;
    (void)natsConnection_GetLastError(connection, &last);
    of(closure).set_connected(false, last != nullptr && *last != '\0' ? last : "the connection is lost");
  }
  static void on_closed(natsConnection* /*connection*/, void* closure) {
    LibraryClient& client = of(closure);
    // It gives up by itself where the server has refused it twice for what it is.
    client.set_connected(false, "the server refuses the connection");
    // Under the lock, because the object may be gone as soon as it is released.
    const std::lock_guard lock(client.mutex_);
    client.open_ = false;
    client.changed_.notify_all();
  }
  // Slow consumers: what is lost is seen by the gaps in the messages' numbers.
  static void on_error(natsConnection* /*connection*/, natsSubscription* /*subscription*/, natsStatus /*status*/,
                       void* /*closure*/) {}

  void set_open(bool open) {
    const std::lock_guard lock(mutex_);
    open_ = open;
  }

  void set_connected(bool connected, const std::string& problem) {
    {
      const std::lock_guard lock(mutex_);
      if (stops_) return;
      connected_ = connected;
      if (connected) ++connections_;
    }
    changed_.notify_all();
    handlers_.on_connection(connected, problem);
  }

  // The rest is the table's thread.
  void keep_table() {
    std::string told = "unknown";
    std::unique_lock lock(mutex_);
    while (!stops_) {
      if (!connected_) {
        changed_.wait(lock);
        continue;
      }
      const std::uint64_t connections = connections_;
      lock.unlock();
      const std::string problem = follow_table(connections, told);
      if (!problem.empty() && std::exchange(told, problem) != problem) handlers_.on_table(problem);
      lock.lock();
      if (!problem.empty()) changed_.wait_for(lock, kTableAgain, [this] { return stops_; });
    }
  }

  /// Returns why it ended; empty: the connection is another one, or there is to be none.
  [[nodiscard]] std::string follow_table(std::uint64_t connections, std::string& told) {
    jsOptions settings;
    jsOptions_Init(&settings);
    settings.Wait = kTableMs;
    jsCtx* context = nullptr;
    if (const natsStatus status = natsConnection_JetStream(&context, connection_.get(), &settings); status != NATS_OK)
      return text_of(status);
    const JetStreamPointer jet_stream(context);
    kvStore* store = nullptr;
    natsStatus status = js_KeyValue(&store, context, options_.bucket.c_str());
    if (status == NATS_NOT_FOUND) {
      kvConfig config;
      kvConfig_Init(&config);
      config.Bucket = options_.bucket.c_str();
      config.Description = "routing modes and workers that are held, of kvist's gateways";
      config.MaxValueSize = static_cast<std::int32_t>(kMaxRowBytes);
      config.History = 1;
      config.StorageType = js_FileStorage;
      status = js_CreateKeyValue(&store, context, &config);
    }
    if (status != NATS_OK) return text_of(status);
    const TablePointer table(store);
    // What was decided here while there was no connection is newer than what the table has.
    if (std::string problem = write_rows(store); !problem.empty()) return problem;
    kvWatcher* watching = nullptr;
    kvWatchOptions options;
    kvWatchOptions_Init(&options);
    options.Timeout = kTableMs;
    if (status = kvStore_WatchAll(&watching, store, &options); status != NATS_OK) return text_of(status);
    const WatcherPointer watcher(watching);
    if (!std::exchange(told, std::string()).empty()) handlers_.on_table({});
    while (is_current(connections)) {
      kvEntry* entry = nullptr;
      status = kvWatcher_Next(&entry, watching, kRowWaitMs);
      if (status != NATS_OK && status != NATS_TIMEOUT) return is_current(connections) ? text_of(status) : std::string();
      if (entry != nullptr) tell(EntryPointer(entry));
      if (std::string problem = write_rows(store); !problem.empty())
        return is_current(connections) ? problem : std::string();
    }
    return {};
  }

  [[nodiscard]] bool is_current(std::uint64_t connections) {
    const std::lock_guard lock(mutex_);
    return !stops_ && connected_ && connections_ == connections;
  }

  void tell(const EntryPointer& entry) {
    const auto length = static_cast<std::size_t>(std::max(0, kvEntry_ValueLen(entry.get())));
    if (length > kMaxRowBytes) return;
    const std::string key = kvEntry_Key(entry.get());
    if (kvEntry_Operation(entry.get()) != kvOp_Put) return handlers_.on_row(key, std::nullopt);
    handlers_.on_row(key, std::string(static_cast<const char*>(kvEntry_Value(entry.get())), length));
  }

  /// Returns what went wrong; then the row waits on.
  [[nodiscard]] std::string write_rows(kvStore* store) {
    while (true) {
      std::string key;
      std::string value;
      {
        const std::lock_guard lock(mutex_);
        if (rows_.empty()) return {};
        key = rows_.begin()->first;
        value = rows_.begin()->second;
      }
      const natsStatus status = kvStore_Put(nullptr, store, key.c_str(), value.data(), static_cast<int>(value.size()));
      if (status != NATS_OK) return text_of(status);
      const std::lock_guard lock(mutex_);
      if (const auto row = rows_.find(key); row != rows_.end() && row->second == value) rows_.erase(row);
    }
  }

  const ClientOptions options_;
  const ClientHandlers handlers_;
  ConnectionPointer connection_;
  std::vector<SubscriptionPointer> subscriptions_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> connected_ = false;  // changes under the lock
  std::uint64_t connections_ = 0;        // under the lock, as are the next
  bool stops_ = false;
  bool open_ = false;
  Rows rows_;  // that wait to be written
  std::thread table_thread_;
};

}  // namespace

Result<std::unique_ptr<Client>> Client::start(const ClientOptions& options, ClientHandlers handlers, const Rows& rows) {
  auto client = std::make_unique<LibraryClient>(options, std::move(handlers), rows);
  KVIST_TRY_VOID(client->start());
  return client;
}

void Client::keep(Rows& rows, const std::string& key, const std::string& value) {
  // The server would refuse it for ever, and all others would wait behind it.
  if (value.size() > kMaxRowBytes) return;
  rows[key] = value;
  if (rows.size() > kMaxWaitingRows) rows.erase(std::prev(rows.end()));
}

}  // namespace kvist::nats

// TLS on a socket pair: what a peer can do besides sending data, and what ends together with data.
#include "kvist/net/tls_session.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "kvist/net/socket.h"
#include "kvist/net/tls.h"
#include "net/certificates.h"

namespace kvist::net::tls_session_test {
namespace {

/// A session under test, as a server, and a client of OpenSSL's own.
class TlsSessionTest : public testing::Test {
 protected:
  void SetUp() override {
    int ends[2] = {-1, -1};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    server_end_ = UniqueFd(ends[0]);
    client_end_ = UniqueFd(ends[1]);
    server_ = TlsServer::load({.certificate = certificate_.certificate(), .key = certificate_.key()}).value();
    session_ = server_->accept(server_end_.get());
    SSL_set_fd(client_.get(), client_end_.get());
    SSL_set_connect_state(client_.get());
    constexpr int kMostTurns = 100;
    for (int turn = 0; turn < kMostTurns && !(session_->established() && SSL_is_init_finished(client_.get())); ++turn) {
      (void)SSL_do_handshake(client_.get());
      if (!session_->established()) (void)session_->handshake();
    }
    ASSERT_TRUE(session_->established()) << session_->problem();
  }

  bool client_sends(std::string_view text) {
    return SSL_write(client_.get(), text.data(), static_cast<int>(text.size())) == static_cast<int>(text.size());
  }
  /// A record that costs the client nothing, and after which the server has to make new keys.
  bool client_updates_its_key(int kind = SSL_KEY_UPDATE_NOT_REQUESTED) {
    return SSL_key_update(client_.get(), kind) == 1 && SSL_do_handshake(client_.get()) == 1;
  }
  [[nodiscard]] int bytes_in_socket() const {
    int bytes = 0;
    ::ioctl(server_end_.get(), FIONREAD, &bytes);
    return bytes;
  }
  /// The result of a call, and what it read.
  std::pair<ssize_t, std::string> read() {
    char buffer[4096];
    const ssize_t bytes = session_->read(buffer, sizeof(buffer));
    return {bytes, std::string(buffer, bytes > 0 ? static_cast<std::size_t>(bytes) : 0)};
  }

  const Certificate certificate_{{}};
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_{SSL_CTX_new(TLS_client_method()), &SSL_CTX_free};
  const std::unique_ptr<SSL, decltype(&SSL_free)> client_{SSL_new(context_.get()), &SSL_free};
  UniqueFd server_end_;
  UniqueFd client_end_;
  std::shared_ptr<TlsServer> server_;
  std::unique_ptr<TlsSession> session_;
};

TEST_F(TlsSessionTest, AFloodOfKeyUpdatesEndsACallBeforeTheSocketIsEmpty) {
  constexpr int kUpdates = 100;
  for (int i = 0; i < kUpdates; ++i) ASSERT_TRUE(client_updates_its_key());
  ASSERT_TRUE(client_sends("hello"));
  EXPECT_EQ(read().first, -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_TRUE(session_->may_go_on());
  EXPECT_GT(bytes_in_socket(), 0);
  std::pair<ssize_t, std::string> last;
  int calls = 1;
  do {
    last = read();
    ++calls;
  } while (last.first < 0 && session_->may_go_on() && calls <= kUpdates);
  EXPECT_EQ(last.second, "hello") << session_->problem();
  EXPECT_GT(calls, 5);
  EXPECT_EQ(read().first, -1);
  EXPECT_FALSE(session_->may_go_on());  // until something comes
  ASSERT_EQ(session_->write("back", 4), 4);
  char answer[8];
  EXPECT_EQ(SSL_read(client_.get(), answer, sizeof(answer)), 4);
}

// Each of these is answered, and nobody reads the answers.
TEST_F(TlsSessionTest, KeyUpdatesWhoseAnswersNobodyReadsStopTheReading) {
  bool sent = true;
  int calls = 0;
  constexpr int kMostCalls = 100'000;
  do {
    for (int i = 0; i < 50 && sent; ++i) sent = client_updates_its_key(SSL_KEY_UPDATE_REQUESTED);
    (void)read();
    ++calls;
  } while ((sent || session_->may_go_on()) && calls < kMostCalls);
  EXPECT_LT(calls, kMostCalls);
  EXPECT_FALSE(sent);
  EXPECT_GT(bytes_in_socket(), 0);
  EXPECT_EQ(session_->problem(), "");
}

TEST_F(TlsSessionTest, DataThatComesWithTheFarewellIsReadFirst) {
  ASSERT_TRUE(client_sends("the last words"));
  (void)SSL_shutdown(client_.get());
  EXPECT_EQ(read().second, "the last words");
  EXPECT_TRUE(session_->may_go_on());  // nothing more will happen to the socket, so who reads must not wait for that
  EXPECT_EQ(read().first, 0);
  EXPECT_EQ(read().first, 0);
}

TEST_F(TlsSessionTest, DataThatComesWithABreakIsReadFirst) {
  ASSERT_TRUE(client_sends("the last words"));
  ::shutdown(client_end_.get(), SHUT_WR);
  EXPECT_EQ(read().second, "the last words");
  EXPECT_TRUE(session_->may_go_on());
  EXPECT_EQ(read().first, -1);
  EXPECT_EQ(errno, EPROTO);
  EXPECT_EQ(session_->problem(), "the connection ended without TLS's farewell");
}

// The test would end with SIGPIPE, which is not ignored.
TEST_F(TlsSessionTest, AWriteToAPeerThatIsGoneSaysSo) {
  client_end_.reset();
  EXPECT_EQ(session_->write("hello", 5), -1);
  EXPECT_EQ(errno, EPROTO);
  EXPECT_EQ(session_->problem(), error_text(EPIPE));
}

}  // namespace
}  // namespace kvist::net::tls_session_test

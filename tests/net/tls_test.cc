// TLS between the server and the client, with certificates of all kinds.
#include "kvist/net/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>

#include <chrono>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kvist/net/http_client.h"
#include "net/certificates.h"
#include "net/http_server_fixture.h"

namespace kvist::net::tls_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class TlsTest : public HttpServerTest {
 protected:
  void serve(const Certificate& certificate, ClientCertificates clients = ClientCertificates::kNone,
             Duration head_timeout = std::chrono::seconds(75)) {
    auto loaded = TlsServer::load({.certificate = certificate.certificate(),
                                   .key = certificate.key(),
                                   .client_ca = clients == ClientCertificates::kNone ? "" : authority_.certificate(),
                                   .client_certificates = clients});
    ASSERT_TRUE(loaded) << loaded.error().message;
    tls_ = *loaded;
    listen({.head_timeout = head_timeout, .tls = tls_});
  }
  [[nodiscard]] std::string url(const std::string& host = "127.0.0.1") const {
    return "https://" + host + ":" + std::to_string(port_) + "/echo";
  }
  Result<HttpResponse> get(TlsClientOptions options, const std::string& host = "127.0.0.1") const {
    KVIST_TRY(std::shared_ptr<TlsClient> client, TlsClient::load(std::move(options)));
    return fetch_blocking("POST", url(host), "hello", std::chrono::seconds(20), {}, client);
  }
  /// The body, or the error.
  std::string ask(TlsClientOptions options, const std::string& host = "127.0.0.1") const {
    const auto answer = get(std::move(options), host);
    return answer ? answer->body : answer.error().message;
  }
  [[nodiscard]] TlsClientOptions trusting() const { return {.ca = authority_.certificate()}; }

  const Certificate authority_{{.is_authority = true}};
  const Certificate good_{{}, &authority_};
  std::shared_ptr<TlsServer> tls_;
};

constexpr const char* kAnswer = "POST /echo hello";

TEST_F(TlsTest, ServesAClientThatTrustsTheAuthority) {
  serve(good_);
  EXPECT_EQ(ask(trusting()), kAnswer);
  EXPECT_EQ(ask(trusting(), "localhost"), kAnswer);
  EXPECT_EQ(tls_->failed_handshakes(), 0U);
}

TEST_F(TlsTest, SaysWhatIsWrongWithACertificate) {
  const Certificate stranger{{.is_authority = true}};
  const Certificate expired{{.valid_from_s = -7200, .valid_until_s = -3600}, &authority_};
  const Certificate early{{.valid_from_s = 3600, .valid_until_s = 7200}, &authority_};
  const Certificate elsewhere{{.subject_alt_name = "DNS:gpu.example,IP:10.0.0.1"}, &authority_};
  const Certificate own{{}};
  serve(good_);
  EXPECT_THAT(ask({.ca = stranger.certificate()}), HasSubstr("an authority that is not trusted here"));
  EXPECT_THAT(ask({}), HasSubstr("an authority that is not trusted here"));
  serve(expired);
  EXPECT_THAT(ask(trusting()), AllOf(StartsWith("127.0.0.1:"), HasSubstr("TLS: the peer's certificate"),
                                     HasSubstr("has expired: it was good until ")));
  serve(early);
  EXPECT_THAT(ask(trusting()), HasSubstr("is not good before"));
  serve(elsewhere);
  EXPECT_THAT(ask(trusting()), HasSubstr("is not for 127.0.0.1 but for gpu.example, 10.0.0.1"));
  EXPECT_EQ(ask({.ca = authority_.certificate(), .server_name = "gpu.example"}), kAnswer);
  EXPECT_THAT(ask({.ca = authority_.certificate(), .server_name = "cpu.example"}), HasSubstr("is not for cpu.example"));
  serve(own);
  EXPECT_THAT(ask(trusting()), HasSubstr("an authority that is not trusted here"));
  EXPECT_EQ(ask({.ca = own.certificate()}), kAnswer);
  EXPECT_TRUE(thread_.wait([&] { return tls_->failed_handshakes() == 1; }));
}

TEST_F(TlsTest, AsksClientsForCertificates) {
  const Certificate client{{.subject_alt_name = "DNS:client.example"}, &authority_};
  const Certificate stranger{{}};
  const auto with = [&](const Certificate& own) {
    TlsClientOptions options = trusting();
    options.certificate = own.certificate();
    options.key = own.key();
    return options;
  };
  serve(good_, ClientCertificates::kRequired);
  EXPECT_EQ(ask(with(client)), kAnswer);
  EXPECT_NE(ask(trusting()), kAnswer);
  EXPECT_NE(ask(with(stranger)), kAnswer);
  EXPECT_EQ(thread_.run([&] { return requests_; }), 1);
  serve(good_, ClientCertificates::kOptional);
  EXPECT_EQ(ask(with(client)), kAnswer);
  EXPECT_EQ(ask(trusting()), kAnswer);
  EXPECT_NE(ask(with(stranger)), kAnswer);
}

TEST_F(TlsTest, NewConnectionsGetTheNewCertificateAndOldOnesGoOn) {
  const Certificate other_authority{{.is_authority = true}};
  const Certificate next{{}, &other_authority};
  serve(good_);
  std::vector<std::string> answers;
  std::unique_ptr<HttpClient> client;
  std::vector<std::unique_ptr<HttpCall>> calls;
  const auto ask_on_kept_connection = [&] {
    const std::size_t before = answers.size();
    thread_.run([&] {
      HttpRequest request{.method = "GET", .target = "/echo", .headers = {}, .body = {}};
      calls.push_back(client->fetch(
          "https://127.0.0.1:" + std::to_string(port_), std::move(request), std::chrono::seconds(20),
          [&](Result<HttpResponse> answer) { answers.push_back(answer ? answer->body : answer.error().message); }));
    });
    EXPECT_TRUE(thread_.wait([&] { return answers.size() > before; }));
  };
  thread_.run([&] {
    client =
        std::make_unique<HttpClient>(thread_.loop(), HttpClientOptions{.tls = TlsClient::load(trusting()).value()});
  });
  ask_on_kept_connection();
  good_.replace_files_by(next);
  ASSERT_TRUE(tls_->reload());
  ask_on_kept_connection();
  EXPECT_THAT(answers, testing::Each("GET /echo "));
  EXPECT_THAT(ask(trusting()), HasSubstr("not trusted"));
  EXPECT_EQ(ask({.ca = other_authority.certificate()}), kAnswer);
  EXPECT_TRUE(thread_.wait([&] { return server_->connections() == 1; }));  // the kept one
  std::ofstream(good_.key()) << "broken";
  const auto bad = tls_->reload();
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message, StartsWith(good_.key()));
  EXPECT_EQ(ask({.ca = other_authority.certificate()}), kAnswer);
  thread_.run([&] {
    calls.clear();
    client.reset();
  });
}

TEST_F(TlsTest, FilesThatAreNotGoodAreNamed) {
  const auto server = [](const std::string& certificate, const std::string& key, const std::string& ca = "") {
    const auto loaded = TlsServer::load(
        {.certificate = certificate,
         .key = key,
         .client_ca = ca,
         .client_certificates = ca.empty() ? ClientCertificates::kNone : ClientCertificates::kRequired});
    return loaded ? std::string("no error") : loaded.error().message;
  };
  EXPECT_EQ(server("/nowhere.pem", good_.key()), "/nowhere.pem: no such file");
  EXPECT_THAT(server(good_.key(), good_.key()), StartsWith(good_.key() + ": no certificate in PEM form"));
  EXPECT_THAT(server(good_.certificate(), authority_.key()), AllOf(StartsWith(authority_.key()), HasSubstr("not")));
  EXPECT_THAT(server(good_.certificate(), good_.key(), "/nowhere.pem"), StartsWith("/nowhere.pem: no such file"));
  EXPECT_FALSE(TlsClient::load({.ca = "/nowhere.pem"}));
  EXPECT_FALSE(TlsClient::load({.certificate = good_.certificate(), .key = "/nowhere.pem"}));
}

TEST_F(TlsTest, CarriesLargeBodiesBothWays) {
  auto loaded = TlsServer::load({.certificate = good_.certificate(), .key = good_.key()});
  ASSERT_TRUE(loaded);
  listen({.tls = *loaded});
  const auto client = TlsClient::load(trusting()).value();
  std::string body(5U << 20, 'x');
  for (std::size_t i = 0; i < body.size(); i += 1'000) body[i] = static_cast<char>('a' + i / 1'000 % 26);
  const auto answer = fetch_blocking("POST", url(), body, std::chrono::seconds(60), {}, client);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->body, "POST /echo " + body);
}

TEST_F(TlsTest, StreamsArriveAsTheyAreWritten) {
  serve(good_);
  std::string seen;
  bool ended = false;
  std::unique_ptr<HttpClient> client;
  std::unique_ptr<HttpCall> call;
  thread_.run([&] {
    client =
        std::make_unique<HttpClient>(thread_.loop(), HttpClientOptions{.tls = TlsClient::load(trusting()).value()});
    CallHandlers handlers;
    handlers.on_body = [&](std::string_view data, TimePoint) { seen += data; };
    handlers.on_end = [&](const CallTimes&) { ended = true; };
    call = client->start("https://localhost:" + std::to_string(port_),
                         HttpRequest{.method = "GET", .target = "/stream", .headers = {}, .body = {}},
                         std::chrono::seconds(20), std::move(handlers));
  });
  ASSERT_TRUE(wait_held(1));
  with_exchange([](HttpExchange& e) { e.begin_stream(200, {}); });
  for (const char* piece : {"one", "two", "three"}) {
    with_exchange([&](HttpExchange& e) { e.write(piece); });
    ASSERT_TRUE(thread_.wait([&] { return seen.ends_with(piece); })) << piece;
  }
  with_exchange([](HttpExchange& e) { e.end_stream(); });
  EXPECT_TRUE(thread_.wait([&] { return ended; }));
  thread_.run([&] {
    call.reset();
    client.reset();
  });
}

TEST_F(TlsTest, ABrokenStreamIsSeenAsBroken) {
  serve(good_);
  std::string error;
  std::unique_ptr<HttpClient> client;
  std::unique_ptr<HttpCall> call;
  thread_.run([&] {
    client =
        std::make_unique<HttpClient>(thread_.loop(), HttpClientOptions{.tls = TlsClient::load(trusting()).value()});
    CallHandlers handlers;
    handlers.on_error = [&](const Error& why, bool) { error = why.message; };
    call = client->start("https://localhost:" + std::to_string(port_),
                         HttpRequest{.method = "GET", .target = "/stream", .headers = {}, .body = {}},
                         std::chrono::seconds(20), std::move(handlers));
  });
  ASSERT_TRUE(wait_held(1));
  with_exchange([](HttpExchange& e) {
    e.begin_stream(200, {});
    e.write("half");
    e.abort();
  });
  EXPECT_TRUE(thread_.wait([&] { return !error.empty(); }));
  EXPECT_THAT(error, HasSubstr("broke off its answer"));
  thread_.run([&] {
    call.reset();
    client.reset();
  });
}

// OpenSSL reports a write that fails after the peer's farewell as an end in order, which nothing follows.
TEST_F(TlsTest, AClientThatTakesLeaveWithAnAnswerUnreadEndsOnlyItsConnection) {
  serve(good_);
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
  const std::unique_ptr<SSL, decltype(&SSL_free)> client(SSL_new(context.get()), &SSL_free);
  RawSocket socket = RawSocket::connect(port_, 4096);
  SSL_set_fd(client.get(), socket.fd());
  ASSERT_EQ(SSL_connect(client.get()), 1);
  constexpr std::string_view kRequest = "GET /large HTTP/1.1\r\nHost: x\r\n\r\n";
  ASSERT_GT(SSL_write(client.get(), kRequest.data(), static_cast<int>(kRequest.size())), 0);
  ASSERT_TRUE(wait_held(1));
  with_exchange([](HttpExchange& e) { e.respond({200, {}, std::string(32U << 20, 'x')}); });
  (void)SSL_shutdown(client.get());
  for (int turn = 0; turn < 20; ++turn) thread_.run([] {});  // so that the farewell is read before the reset
  socket.close_with_reset();
  EXPECT_EQ(ask(trusting()), kAnswer);
}

// The answer's end is TLS's farewell, which comes with its last bytes and is not followed by the connection's.
TEST_F(TlsTest, AnAnswerThatEndsWithTheFarewellIsComplete) {
  const RawListener listener;
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free);
  ASSERT_EQ(SSL_CTX_use_certificate_file(context.get(), good_.certificate().c_str(), SSL_FILETYPE_PEM), 1);
  ASSERT_EQ(SSL_CTX_use_PrivateKey_file(context.get(), good_.key().c_str(), SSL_FILETYPE_PEM), 1);
  bool over = false;
  Result<HttpResponse> answer = fail(ErrorCode::kUnavailable, "none yet");
  std::unique_ptr<HttpClient> client;
  std::unique_ptr<HttpCall> call;
  thread_.run([&] {
    client =
        std::make_unique<HttpClient>(thread_.loop(), HttpClientOptions{.tls = TlsClient::load(trusting()).value()});
    call = client->fetch("https://127.0.0.1:" + std::to_string(listener.port()),
                         HttpRequest{.method = "GET", .target = "/", .headers = {}, .body = {}},
                         std::chrono::seconds(20), [&](Result<HttpResponse> got) {
                           answer = std::move(got);
                           over = true;
                         });
  });
  const std::unique_ptr<SSL, decltype(&SSL_free)> server(SSL_new(context.get()), &SSL_free);
  const RawSocket socket = listener.accept();
  SSL_set_fd(server.get(), socket.fd());
  ASSERT_EQ(SSL_accept(server.get()), 1);
  char request[4096];
  ASSERT_GT(SSL_read(server.get(), request, sizeof(request)), 0);
  constexpr int kOn = 1;
  constexpr int kOff = 0;
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_CORK, &kOn, sizeof(kOn));
  constexpr std::string_view kWhole = "HTTP/1.1 200 OK\r\n\r\nall of it";
  ASSERT_EQ(SSL_write(server.get(), kWhole.data(), static_cast<int>(kWhole.size())), static_cast<int>(kWhole.size()));
  (void)SSL_shutdown(server.get());
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_CORK, &kOff, sizeof(kOff));
  EXPECT_TRUE(thread_.wait([&] { return over; }));
  EXPECT_EQ(thread_.run([&] { return answer ? answer->body : answer.error().message; }), "all of it");
  thread_.run([&] {
    call.reset();
    client.reset();
  });
}

TEST_F(TlsTest, AHandshakeThatTakesTooLongIsCounted) {
  serve(good_, ClientCertificates::kNone, std::chrono::milliseconds(100));
  RawSocket silent = connect();
  EXPECT_TRUE(silent.ended());
  RawSocket half = connect();
  ASSERT_TRUE(half.send("\x16\x03\x01\x02"));
  EXPECT_TRUE(half.ended());
  EXPECT_TRUE(thread_.wait([&] { return tls_->failed_handshakes() == 2 && server_->connections() == 0; }));
}

TEST_F(TlsTest, WhoSpeaksNoTlsIsTurnedAway) {
  serve(good_);
  RawSocket plain = connect();
  ASSERT_TRUE(plain.send("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n"));
  (void)plain.read_to_end();
  EXPECT_TRUE(thread_.wait([&] { return tls_->failed_handshakes() == 1 && server_->connections() == 0; }));
  EXPECT_EQ(thread_.run([&] { return requests_; }), 0);
}

TEST_F(TlsTest, AServerThatSpeaksNoTlsIsNamed) {
  listen();
  EXPECT_THAT(ask(trusting()), HasSubstr("TLS: the peer speaks no TLS"));
}

TEST_F(TlsTest, AHandshakeThatStandsStillIsGivenUp) {
  auto loaded = TlsServer::load({.certificate = good_.certificate(), .key = good_.key()});
  ASSERT_TRUE(loaded);
  listen({.head_timeout = std::chrono::milliseconds(300), .tls = *loaded});
  RawSocket silent = connect();
  EXPECT_EQ(silent.read_to_end(), "");
  const RawListener listener;
  const auto client = TlsClient::load(trusting()).value();
  const auto answer = fetch_blocking("GET", "https://127.0.0.1:" + std::to_string(listener.port()) + "/", "",
                                     std::chrono::milliseconds(500), {}, client);
  ASSERT_FALSE(answer);
}

TEST_F(TlsTest, APieceBehindTlsIsAsOldAsItsPacket) {
  serve(good_);
  LoopThread client_thread;
  std::unique_ptr<HttpClient> client;
  std::unique_ptr<HttpCall> call;
  std::vector<PieceAge> ages;
  client_thread.run([&] {
    client = std::make_unique<HttpClient>(
        client_thread.loop(), HttpClientOptions{.stamp_reads = true, .tls = TlsClient::load(trusting()).value()});
    CallHandlers handlers;
    handlers.on_body = [&](std::string_view, TimePoint) { ages.push_back(call->piece_age(HttpCall::Bytes::kLast)); };
    HttpRequest request{.method = "GET", .target = "/held", .headers = {}, .body = {}};
    call = client->start("https://127.0.0.1:" + std::to_string(port_), std::move(request), std::chrono::seconds(100),
                         std::move(handlers));
  });
  ASSERT_TRUE(wait_held(1));
  with_exchange([](HttpExchange& exchange) { exchange.begin_stream(200, {}); });
  // The system begins to stamp a moment after it was first asked to.
  bool stamped = false;
  for (std::size_t sent = 1; sent <= 200 && !stamped; ++sent) {
    with_exchange([](HttpExchange& exchange) { exchange.write("x"); });
    ASSERT_TRUE(client_thread.wait([&] { return ages.size() == sent; }));
    stamped = ages.back().stamped;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const std::size_t before = ages.size();
  std::promise<void> held;
  std::promise<void> release;
  std::thread holder([&] {
    client_thread.run([&] {
      held.set_value();
      release.get_future().wait();
    });
  });
  held.get_future().wait();
  with_exchange([](HttpExchange& exchange) { exchange.write("y"); });
  thread_.run([] {});  // so that it was sent
  const TimePoint sent = now();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const Duration since = now() - sent;
  release.set_value();
  holder.join();
  EXPECT_TRUE(client_thread.wait([&] { return ages.size() == before + 1; }));
  EXPECT_GE(ages.back().at_most, since);
  EXPECT_EQ(ages.back().stamped, stamped);
  EXPECT_GE(ages.back().at_least, stamped ? since : Duration::zero());
  client_thread.run([&] {
    call.reset();
    client.reset();
  });
}

}  // namespace
}  // namespace kvist::net::tls_test

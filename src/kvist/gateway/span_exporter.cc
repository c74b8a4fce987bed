#include "kvist/gateway/span_exporter.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kvist/net/bearer_key.h"
#include "kvist/net/time_of_day.h"
#include "kvist/net/tls.h"
#include "kvist/net/watched_files.h"
#include "kvist/telemetry/log.h"

namespace kvist::gateway {
namespace {

/// "http://host:port" of "http://host:port/path".
std::string base_of(const std::string& endpoint) {
  return endpoint.substr(0, endpoint.find('/', endpoint.find("://") + 3));
}

bool may_be_sent_again(int status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

std::vector<std::string> files_of(const std::vector<spec::OtlpHeader>& headers) {
  std::vector<std::string> files;
  for (const spec::OtlpHeader& header : headers)
    if (!header.file.empty()) files.push_back(header.file);
  return files;
}

Result<net::Headers> read_headers(const std::vector<spec::OtlpHeader>& specs) {
  net::Headers headers;
  headers.set("Content-Type", "application/json");
  for (const spec::OtlpHeader& header : specs) {
    std::string value = header.value;
    if (!header.file.empty()) {
      KVIST_TRY(value, net::read_header_value(header.file));
    }
    headers.add(header.name, std::move(value));
  }
  return headers;
}

}  // namespace

Result<std::unique_ptr<SpanExporter>> SpanExporter::open(const spec::OtlpSpec& spec, std::string instance) {
  KVIST_TRY(net::Headers headers, read_headers(spec.headers));
  net::ServerSettings server;
  if (spec.tls != spec::ClientTlsSpec{}) {
    KVIST_TRY(server.tls, net::TlsClient::load({.ca = spec.tls.ca,
                                                .server_name = spec.tls.server_name,
                                                .certificate = spec.tls.certificate,
                                                .key = spec.tls.key}));
  }
  return std::unique_ptr<SpanExporter>(
      new SpanExporter(spec, std::move(instance), std::move(headers), std::move(server)));
}

SpanExporter::SpanExporter(const spec::OtlpSpec& spec, std::string instance, net::Headers headers,
                           net::ServerSettings server)
    : spec_(spec),
      base_url_(base_of(spec.endpoint)),
      target_(spec.endpoint.substr(base_url_.size())),
      source_{.service_name = spec.service_name, .instance = std::move(instance)},
      header_files_(files_of(spec.headers)),
      headers_(std::move(headers)),
      client_(std::make_unique<net::HttpClient>(loop_, net::HttpClientOptions{.connect_timeout = spec.timeout})),
      timer_(std::make_unique<net::Timer>(loop_)),
      farewell_(std::make_unique<net::Timer>(loop_)) {
  if (server.tls) client_->set_server(base_url_, std::move(server));
  thread_ = std::thread([this] { run(); });
}

SpanExporter::~SpanExporter() {
  loop_.post([this] {
    ending_ = true;
    farewell_->arm(net::now() + kFarewell, [this] { loop_.stop(); });
    pause_ = Duration(0);
    if (!call_) send();
  });
  thread_.join();
}

void SpanExporter::add(std::shared_ptr<const RequestReport> report) {
  const std::scoped_lock lock(mutex_);
  if (waiting_.size() >= spec_.max_waiting) {
    ++counters_.dropped;
    return;
  }
  waiting_.push_back(std::move(report));
}

SpanExporter::Counters SpanExporter::counters() const {
  const std::scoped_lock lock(mutex_);
  Counters counters = counters_;
  counters.waiting = waiting_.size();
  return counters;
}

void SpanExporter::run() {
  next(spec_.interval);
  loop_.run();
  call_.reset();
  farewell_.reset();
  timer_.reset();
  client_.reset();
}

void SpanExporter::next(Duration in) {
  timer_->arm(net::now() + in, [this] { send(); });
}

void SpanExporter::send() {
  if (call_) return;  // its end sends the next
  if (batch_.empty()) {
    const std::scoped_lock lock(mutex_);
    const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(std::min(waiting_.size(), kMostInBatch));
    batch_.assign(std::move_iterator(waiting_.begin()), std::move_iterator(end));
    waiting_.erase(waiting_.begin(), end);
  }
  if (batch_.empty()) {
    if (ending_) return loop_.stop();
    return next(spec_.interval);
  }
  source_.clock_unix_s = net::unix_seconds() - to_seconds(net::now().time_since_epoch());
  refresh_headers();
  net::HttpRequest request{
      .method = "POST", .target = target_, .headers = headers_, .body = otlp_json(source_, batch_)};
  call_ = client_->fetch(base_url_, std::move(request), spec_.timeout,
                         [this](const Result<net::HttpResponse>& answer) { on_answer(answer); });
}

// The stamps are taken before the files are read, so that a change while they are read is noticed the next time.
void SpanExporter::refresh_headers() {
  if (header_files_.empty()) return;
  net::FileStamps stamps = net::WatchedFiles::stamps_of(header_files_);
  if (stamps == stamps_) return;
  stamps_ = std::move(stamps);
  Result<net::Headers> read = read_headers(spec_.headers);
  if (read) {
    headers_ = *std::move(read);
  } else {
    telemetry::log_error("otlp", fmt::format("header fields stay as they were: {}", read.error().message));
  }
}

void SpanExporter::on_answer(const Result<net::HttpResponse>& answer) {
  const bool taken = answer && answer->status >= 200 && answer->status < 300;
  const bool again = !taken && (!answer || may_be_sent_again(answer->status));
  if (!taken && warnings_.pass(net::now())) {
    telemetry::log_warning("otlp",
                           fmt::format("{}: {}", spec_.endpoint,
                                       answer ? fmt::format("status {}", answer->status) : answer.error().message));
  }
  {
    const std::scoped_lock lock(mutex_);
    if (!taken) ++counters_.failures;
    if (!again) (taken ? counters_.exported : counters_.refused) += batch_.size();
  }
  if (!again) batch_.clear();
  pause_ = again ? pause_after(pause_, spec_.interval) : Duration(0);
  // The call may not be destroyed by its own handler.
  loop_.post([this, again] {
    call_.reset();
    if (ending_ && again) return loop_.stop();
    bool full = false;
    {
      const std::scoped_lock lock(mutex_);
      full = waiting_.size() >= kMostInBatch;
    }
    if (ending_ || (full && !again)) return send();
    next(again ? pause_ : spec_.interval);
  });
}

}  // namespace kvist::gateway

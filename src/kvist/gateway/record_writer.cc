#include "kvist/gateway/record_writer.h"

#include <fmt/format.h>

#include <cmath>
#include <random>
#include <utility>

#include "kvist/gateway/warning_gate.h"
#include "kvist/net/event_loop.h"
#include "kvist/telemetry/log.h"

namespace kvist::gateway {
namespace {

std::size_t blocks_of(const TrafficRecord& record) {
  return routing::view(record.blocks).size();
}

}  // namespace

Result<std::unique_ptr<RecordWriter>> RecordWriter::open(Options options) {
  KVIST_TRY(RecordFile file, RecordFile::open(options.record, [recording = options.recording](std::uint64_t part) {
              return head_line(recording, part);
            }));
  return std::unique_ptr<RecordWriter>(new RecordWriter(std::move(options), std::move(file)));
}

RecordWriter::RecordWriter(Options options, RecordFile file) : options_(std::move(options)), file_(std::move(file)) {
  counters_.file = file_.counters();
  thread_ = std::thread([this] { run(); });
}

RecordWriter::~RecordWriter() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  woken_.notify_one();
  thread_.join();
}

void RecordWriter::add(TrafficRecord record) {
  const std::size_t blocks = blocks_of(record);
  bool wake = false;
  {
    const std::scoped_lock lock(mutex_);
    ++counters_.added;
    if (waiting_.size() >= options_.max_waiting || waiting_blocks_ + blocks > options_.max_waiting_blocks) {
      ++counters_.dropped;
      return;
    }
    wake = waiting_.empty();
    waiting_blocks_ += blocks;
    waiting_.push_back(std::move(record));
  }
  if (wake) woken_.notify_one();
}

RecordWriter::Counters RecordWriter::counters() const {
  const std::scoped_lock lock(mutex_);
  Counters counters = counters_;
  counters.waiting = waiting_.size();
  return counters;
}

void RecordWriter::run() {
  std::vector<TrafficRecord> batch;
  WarningGate gate;
  std::uint64_t failures = 0;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      woken_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      std::swap(batch, waiting_);
      waiting_blocks_ = 0;
    }
    write(batch);
    batch.clear();
    const RecordFile::Counters& file = file_.counters();
    if (std::exchange(failures, file.failures) < file.failures && gate.pass(net::now())) {
      telemetry::log_warning("record", fmt::format("{}: {}; {} lines lost so far", options_.record.file,
                                                   file_.last_error(), file.lost_lines));
    }
    const std::scoped_lock lock(mutex_);
    counters_.file = file;
  }
}

void RecordWriter::write(const std::vector<TrafficRecord>& batch) {
  for (const TrafficRecord& record : batch) file_.append(record_line(options_.recording, record));
  file_.flush();
}

Recording new_recording(const spec::ServedModelSpec& model, TimePoint now, double unix_seconds) {
  std::random_device device;
  const auto draw = [&device] { return (std::uint64_t{device()} << 32) ^ device(); };
  Recording recording{.id = draw() >> 11,
                      .key = KeyedHash(draw(), draw()),
                      .clock_start = now,
                      .started_unix_ms = std::llround(unix_seconds * 1e3),
                      .model = model.model,
                      .block_size = model.block_size,
                      .workers = {}};
  for (const spec::UpstreamSpec& worker : model.workers) recording.workers.push_back(worker.name);
  return recording;
}

}  // namespace kvist::gateway

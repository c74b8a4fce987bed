// Runs a fuzz target without libFuzzer: over its corpus, and over seeded mutations of it, so that every build repeats
// the fuzzers' findings. Usage: <target> CORPUS_DIRECTORY [SEED [ROUNDS]]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "kvist/base/random.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::uint64_t kDefaultSeed = 20261121;
constexpr int kDefaultRounds = 300;  // per corpus file: a second or so for a whole corpus

std::vector<Bytes> read_corpus(const char* directory) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());  // the same order on every machine: the mutations depend on it
  std::vector<Bytes> corpus;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return corpus;
}

std::size_t position(kvist::RandomStream& random, std::size_t size) {
  return static_cast<std::size_t>(random.uniform_int(0, static_cast<std::int64_t>(size) - 1));
}

void mutate(Bytes& bytes, const Bytes& other, kvist::RandomStream& random) {
  const auto kind = random.uniform_int(0, 4);
  if (bytes.empty() || kind == 0) {
    bytes.insert(bytes.begin() + random.uniform_int(0, static_cast<std::int64_t>(bytes.size())),
                 static_cast<std::uint8_t>(random.next()));
  } else if (kind == 1) {
    bytes[position(random, bytes.size())] ^= static_cast<std::uint8_t>(1U << random.uniform_int(0, 7));
  } else if (kind == 2) {
    bytes[position(random, bytes.size())] = static_cast<std::uint8_t>(random.next());
  } else if (kind == 3) {
    bytes.resize(position(random, bytes.size()));
  } else if (!other.empty()) {
    const std::size_t from = position(random, other.size());
    bytes.resize(position(random, bytes.size()) + 1);
    bytes.insert(bytes.end(), other.begin() + static_cast<std::ptrdiff_t>(from), other.end());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s CORPUS_DIRECTORY [SEED [ROUNDS]]\n", argv[0]);
    return 2;
  }
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : kDefaultSeed;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : kDefaultRounds;
  const std::vector<Bytes> corpus = read_corpus(argv[1]);
  if (corpus.empty()) {
    std::fprintf(stderr, "no corpus in %s\n", argv[1]);
    return 1;
  }
  std::printf("seed %llu, %zu corpus files, %d mutations of each\n", static_cast<unsigned long long>(seed),
              corpus.size(), rounds);
  std::fflush(stdout);  // the seed must be seen even if an input kills the process
  kvist::RandomStream random(seed);
  for (const Bytes& original : corpus) {
    LLVMFuzzerTestOneInput(original.data(), original.size());
    for (int round = 0; round < rounds; ++round) {
      Bytes mutated = original;
      const auto changes = random.uniform_int(1, 8);
      for (int i = 0; i < changes; ++i) mutate(mutated, corpus[position(random, corpus.size())], random);
      LLVMFuzzerTestOneInput(mutated.data(), mutated.size());
    }
  }
  return 0;
}

#include "kvist/cli/main.h"

int main(int argc, char** argv) {
  return kvist::cli::run(argc, argv);
}

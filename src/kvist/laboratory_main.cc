#include "kvist/laboratory/command_line.h"

int main(int argc, char** argv) {
  return kvist::laboratory::run(argc, argv);
}

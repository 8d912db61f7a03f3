// Runs every kernel of csrc/numerics over fixed inputs and prints one line per kernel and dtype: name, variant, elements, hash.
//
//   digest [--threads N] [--only PREFIX]      DENSECORE_ISA=default|avx2|avx512 caps the instruction set
//
// The lines must equal tests/numerics/digests.txt on every host. The level that ran goes to stderr.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "dispatch.h"
#include "report.h"
#include "threads.h"

int main(int argc, char** argv) try {
  int threads = 1;
  const char* only = "";
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 < argc && std::strcmp(argv[i], "--threads") == 0) {
      threads = std::atoi(argv[i + 1]);
    } else if (i + 1 < argc && std::strcmp(argv[i], "--only") == 0) {
      only = argv[i + 1];
    } else {
      std::fprintf(stderr, "usage: digest [--threads N] [--only PREFIX]\n");
      return 2;
    }
  }
  digest::use_threads(threads);
  std::fprintf(stderr, "isa %s threads %d\n", densecore::isa_name(densecore::active_isa()), threads);
  digest::Report report(only);
  digest::pointwise(report);
  digest::activations(report);
  digest::reductions(report);
  digest::blas(report);
  digest::rows(report);
  digest::attention(report);
  digest::random_numbers(report);
  digest::lookups(report);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "digest: %s\n", error.what());
  return 1;
}

#include "perf.h"

int main(int argc, char** argv) { return terse::perf::Main(terse::perf::kAllGather, argc, argv); }

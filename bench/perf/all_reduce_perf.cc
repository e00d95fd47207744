#include "perf.h"

int main(int argc, char** argv) { return terse::perf::Main(terse::perf::kAllReduce, argc, argv); }

#include "compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace terse::program {
namespace {

double value(const char* p, ncclDataType_t datatype) {
  uint16_t half;
  float x;
  if (datatype == ncclFloat32) {
    std::memcpy(&x, p, 4);
    return x;
  }
  std::memcpy(&half, p, 2);
  if (datatype == ncclBfloat16) {
    const uint32_t bits = uint32_t{half} << 16;
    std::memcpy(&x, &bits, 4);
    return x;
  }
  const int exponent = half >> 10 & 31;
  const double fraction = exponent == 0 ? half % 1024 / 1024.0 : 1 + half % 1024 / 1024.0;
  if (exponent == 31) return HUGE_VAL;
  return std::ldexp(fraction, exponent == 0 ? -14 : exponent - 15);  // all are positive
}

double relative_error(const std::vector<char>& a, const std::vector<char>& b,
                      ncclDataType_t datatype) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); i += element_size(datatype)) {
    const double x = value(&a[i], datatype), y = value(&b[i], datatype);
    if (x == y) continue;  // infinities too
    difference += (x - y) * (x - y);
    norm += y * y;
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

bool is_compressed(const Call& c, int size, const Expectation& e) {
  const bool type =
      c.datatype == ncclFloat32 || c.datatype == ncclFloat16 || c.datatype == ncclBfloat16;
  const bool op = !reduces(c.kind) || c.op == Op::kSum || c.op >= Op::kAvg;
  const size_t bytes =
      std::max(send_count(c, size), recv_count(c, size)) * element_size(c.datatype);
  const bool to_itself = (c.kind == Kind::kShift && c.root % size == 0) ||
                         (c.kind == Kind::kMessage && c.root == c.to);
  if (to_itself) return false;
  if (c.fails) return false;
  return e.collectives.contains(name(c.kind)) && type && op && size > 1 && c.count > 0 &&
         bytes >= e.min_bytes;
}

}  // namespace

Verdict compare(const Program& program, const Results& native, const Results& found, int rank,
                int ranks, const Expectation& e) {
  Verdict verdict;
  const std::vector<Call> calls = program.calls();
  // Compressions on the way to a result: to this rank's, and to that of any.
  std::vector<int> lossy(calls.size()), lossy_anywhere(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    const Call& c = calls[i];
    const int before = c.input == kFresh ? 0 : lossy_anywhere[static_cast<size_t>(c.input)];
    lossy[i] = before + is_compressed(c, size_of(c.communicator, rank, ranks), e);
    for (int r = 0; r < ranks; ++r)
      lossy_anywhere[i] = std::max(lossy_anywhere[i],
                                   before + is_compressed(c, size_of(c.communicator, r, ranks), e));
    const std::string where = fmt::format("call {}: {}", i, describe(c));
    if (native[i].size() != found[i].size()) {
      verdict.wrong = where + ": another size";
    } else if (lossy[i] == 0) {
      ++verdict.exact;
      if (native[i] != found[i]) verdict.wrong = where + ": differs, but was to be native";
    } else {
      verdict.compressed += native[i] != found[i];
      const double error = relative_error(found[i], native[i], c.datatype);
      if (!(error <= e.error * lossy[i]))
        verdict.wrong = fmt::format("{}: error {} after {} compressions", where, error, lossy[i]);
    }
    if (!verdict.wrong.empty()) break;
  }
  return verdict;
}

}  // namespace terse::program

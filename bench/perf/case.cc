#include "case.h"

#include <algorithm>
#include <array>

#include "nccl_check.h"

namespace terse::perf {
namespace {

// nccl-tests keeps the shares of ranks on 16-byte borders; a file is taken as it is.
std::size_t Alignment(const Options& options, const DataType& type) {
  return options.input.empty() ? std::max<std::size_t>(16 / type.bytes, 1) : 1;
}

ncclRedOp_t CreateOperator(const Operation& operation, const DataType& type,
                           const RankResources& rank) {
  if (operation.op != Op::kMulSum) return operation.nccl;
  std::array<unsigned char, 8> scalar;
  const double value = PreMulScalar(rank.rank);
  type.store(&value, 1, scalar.data());
  ncclRedOp_t op = ncclSum;
  CheckNccl(
      ncclRedOpCreatePreMulSum(&op, scalar.data(), type.nccl, ncclScalarHostImmediate, rank.comm),
      "ncclRedOpCreatePreMulSum");
  return op;
}

}  // namespace

Case::Case(const Run& run, int thread, const DataType& type, const Operation& operation)
    : run_(run), type_(type), operation_(operation) {
  const auto each = static_cast<std::size_t>(run.options.ranks_per_thread);
  ranks_ = std::span(run.ranks).subspan(static_cast<std::size_t>(thread) * each, each);
  for (const RankResources& rank : ranks_) ops_.push_back(CreateOperator(operation, type, rank));
}

Case::~Case() {
  if (operation_.op != Op::kMulSum) return;
  for (std::size_t i = 0; i < ops_.size(); ++i) ncclRedOpDestroy(ops_[i], ranks_[i].comm);
}

void Case::SetSize(std::size_t total_bytes) {
  const int nranks = run_.team.processes() * run_.options.RanksPerProcess();
  shape_ = run_.collective.shape(total_bytes / type_.bytes, Alignment(run_.options, type_), nranks);
}

std::size_t Case::total_bytes() const {
  return std::max(shape_.send, shape_.receive) * type_.bytes;
}

char* Case::Buffer(char* base) const {
  return base + static_cast<std::size_t>(run_.options.unalign) * type_.bytes;
}

Input Case::RoundInput(int round) const {
  // Integers have no use for fractions: they are always sent exact data.
  const InputKind kind = type_.is_float ? run_.options.DataKind() : InputKind::kExact;
  const int nranks = run_.team.processes() * run_.options.RanksPerProcess();
  return {
      kind,      &type_, operation_.op, nranks, run_.options.seed + static_cast<unsigned>(round),
      run_.files};
}

void Case::Fill(const Input& input, int rank, std::size_t count, char* buffer) {
  constexpr std::size_t kChunk = 2048;
  std::array<double, kChunk> values;
  std::array<unsigned char, kChunk * sizeof(double)> elements;
  for (std::size_t done = 0; done < count; done += kChunk) {
    const std::size_t part = std::min(kChunk, count - done);
    FillInput(input, rank, done, part, values.data());
    type_.store(values.data(), part, elements.data());
    run_.device.copy_in(buffer + done * type_.bytes, elements.data(), part * type_.bytes);
  }
}

void Case::FillBuffers() {
  const Input input = RoundInput(0);
  for (const RankResources& rank : ranks_) {
    Fill(input, rank.rank, run_.buffer_bytes / type_.bytes, Buffer(rank.send));
  }
}

void Case::PreparePlace(Place place) {
  if (place == Place::kOutOfPlace) return;
  for (const RankResources& rank : ranks_) {
    char* receive = Buffer(rank.receive);
    run_.device.copy(receive, Buffer(rank.send), run_.buffer_bytes);
    const std::size_t offset = static_cast<std::size_t>(rank.rank) * shape_.in_place_send;
    run_.device.copy(receive + offset * type_.bytes, Buffer(rank.send), shape_.send * type_.bytes);
  }
}

void Case::Issue(Place place, std::size_t iteration) {
  // As nccl-tests: each iteration works on other memory, so that caches do not flatter.
  const std::size_t total = total_bytes();
  const std::size_t steps = total > 0 ? std::max<std::size_t>(run_.buffer_bytes / total, 1) : 1;
  const std::size_t shift = total * (iteration % steps);
  const bool in_place = place == Place::kInPlace;
  if (ranks_.size() > 1) GroupStart();
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const RankResources& rank = ranks_[i];
    const auto number = static_cast<std::size_t>(rank.rank);
    const std::size_t send_offset = in_place ? number * shape_.in_place_send * type_.bytes : 0;
    const std::size_t receive_offset =
        in_place ? number * shape_.in_place_receive * type_.bytes : 0;
    const Call call = {Buffer(in_place ? rank.receive : rank.send) + shift + send_offset,
                       Buffer(rank.receive) + shift + receive_offset,
                       shape_.parameter,
                       type_.nccl,
                       ops_[i],
                       rank.comm,
                       rank.stream};
    if (run_.scheme == nullptr) {
      CheckNccl(run_.collective.native(call), "the collective");
    } else {
      CheckTerse(run_.scheme->api(),
                 run_.collective.quantized(run_.scheme->api(), run_.scheme->get(), call));
    }
  }
  if (ranks_.size() > 1) GroupEnd();
}

void Case::GroupStart() {
  if (run_.scheme == nullptr) return CheckNccl(ncclGroupStart(), "ncclGroupStart");
  CheckTerse(run_.scheme->api(), run_.scheme->api().group_start());
}

void Case::GroupEnd() {
  if (run_.scheme == nullptr) return CheckNccl(ncclGroupEnd(), "ncclGroupEnd");
  CheckTerse(run_.scheme->api(), run_.scheme->api().group_end());
}

void Case::Synchronize() {
  for (const RankResources& rank : ranks_) {
    run_.device.select(rank.device);
    run_.device.synchronize(rank.stream);
  }
}

Clocks Case::CreateClocks(std::size_t points) const {
  Clocks clocks;
  for (const RankResources& rank : ranks_) {
    run_.device.select(rank.device);
    clocks.push_back(run_.device.create_clock(rank.stream, points));
  }
  return clocks;
}

void Case::Stamp(std::size_t point, const Clocks& clocks) const {
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    run_.device.select(ranks_[i].device);
    clocks[i]->Stamp(point);
  }
}

bool Case::reports_wrong() const {
  if (run_.options.check == 0 || RoundInput(0).kind != InputKind::kExact) return false;
  const bool lossy = run_.scheme != nullptr && !run_.scheme->lossless();
  return !lossy || run_.options.check_given;
}

Verdict Case::Verify(Place place, int round) {
  const Input input = RoundInput(round);
  for (const RankResources& rank : ranks_) {
    Fill(input, rank.rank, shape_.send, Buffer(rank.send));
    run_.device.zero(Buffer(rank.receive), run_.buffer_bytes);
  }
  PreparePlace(place);
  Issue(place, 0);
  Synchronize();
  Verdict verdict;
  std::vector<unsigned char> output(shape_.receive * type_.bytes);
  for (const RankResources& rank : ranks_) {
    const std::size_t offset = place == Place::kInPlace ? shape_.in_place_receive : 0;
    run_.device.copy_out(
        output.data(),
        Buffer(rank.receive) + static_cast<std::size_t>(rank.rank) * offset * type_.bytes,
        output.size());
    if (reports_wrong()) {
      verdict.wrong +=
          static_cast<double>(CountWrong(run_.collective, shape_, input, rank.rank, output.data()));
    }
    if (run_.options.ShowsError() && type_.is_float) {
      const SquaredError error =
          MeasureError(run_.collective, shape_, input, rank.rank, output.data());
      verdict.error.error += error.error;
      verdict.error.norm += error.norm;
    }
    verdict.checksums.push_back(Checksum(output.data(), output.size()));
  }
  return verdict;
}

}  // namespace terse::perf

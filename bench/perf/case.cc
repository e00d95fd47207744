#include "case.h"

#include <algorithm>
#include <array>

#include "nccl_check.h"

namespace terse::perf {
namespace {

// nccl-tests keeps the shares of ranks on 16-byte borders; a file is taken as it is.
std::size_t alignment(const Options& options, const DataType& type) {
  return options.input.empty() ? std::max<std::size_t>(16 / type.bytes, 1) : 1;
}

ncclRedOp_t create_operator(const Operation& operation, const DataType& type,
                            const RankResources& rank) {
  if (operation.op != Op::kMulSum) return operation.nccl;
  std::array<unsigned char, 8> scalar;
  const double value = pre_mul_scalar(rank.rank);
  type.store(&value, 1, scalar.data());
  ncclRedOp_t op = ncclSum;
  check_nccl(
      ncclRedOpCreatePreMulSum(&op, scalar.data(), type.nccl, ncclScalarHostImmediate, rank.comm),
      "ncclRedOpCreatePreMulSum");
  return op;
}

}  // namespace

Case::Case(const Run& run, int thread, const DataType& type, const Operation& operation, int root)
    : run_(run), type_(type), operation_(operation), root_(root) {
  const auto each = static_cast<std::size_t>(run.options.ranks_per_thread);
  ranks_ = std::span(run.ranks).subspan(static_cast<std::size_t>(thread) * each, each);
  for (const RankResources& rank : ranks_) ops_.push_back(create_operator(operation, type, rank));
}

Case::~Case() {
  if (operation_.op != Op::kMulSum) return;
  for (std::size_t i = 0; i < ops_.size(); ++i) ncclRedOpDestroy(ops_[i], ranks_[i].comm);
}

void Case::set_size(std::size_t total_bytes) {
  shape_ = run_.collective.shape(total_bytes / type_.bytes, alignment(run_.options, type_),
                                 run_.nranks());
}

std::size_t Case::total_bytes() const {
  return std::max(shape_.send, shape_.receive) * type_.bytes;
}

char* Case::buffer(char* base) const {
  return base + static_cast<std::size_t>(run_.options.unalign) * type_.bytes;
}

Input Case::round_input(int round) const {
  // Integers have no use for fractions: they are always sent exact data.
  const InputKind kind = type_.is_float ? run_.options.data_kind() : InputKind::kExact;
  return {kind,
          &type_,
          operation_.op,
          run_.nranks(),
          run_.options.seed + static_cast<unsigned>(round),
          run_.files};
}

void Case::fill(const Input& input, int rank, std::size_t count, char* buffer) {
  constexpr std::size_t kChunk = 2048;
  std::array<double, kChunk> values;
  std::array<unsigned char, kChunk * sizeof(double)> elements;
  for (std::size_t done = 0; done < count; done += kChunk) {
    const std::size_t part = std::min(kChunk, count - done);
    fill_input(input, rank, done, part, values.data());
    type_.store(values.data(), part, elements.data());
    run_.device.copy_in(buffer + done * type_.bytes, elements.data(), part * type_.bytes);
  }
}

void Case::fill_buffers() {
  const Input input = round_input(0);
  for (const RankResources& rank : ranks_) {
    fill(input, rank.rank, run_.buffer_bytes / type_.bytes, buffer(rank.send));
  }
}

void Case::prepare_place(Place place) {
  if (place == Place::kOutOfPlace) return;
  for (const RankResources& rank : ranks_) {
    char* receive = buffer(rank.receive);
    run_.device.copy(receive, buffer(rank.send), run_.buffer_bytes);
    place_input(rank);
  }
}

void Case::place_input(const RankResources& rank) {
  const std::size_t offset = static_cast<std::size_t>(rank.rank) * shape_.in_place_send;
  run_.device.copy(buffer(rank.receive) + offset * type_.bytes, buffer(rank.send),
                   shape_.send * type_.bytes);
}

Seat Case::seat(const RankResources& rank, Place place) const {
  return {rank.rank, run_.nranks(), root_, place == Place::kInPlace};
}

void Case::issue(Place place, std::size_t iteration) {
  // As nccl-tests: each iteration works on other memory, so that caches do not flatter.
  const std::size_t total = total_bytes();
  const std::size_t steps = total > 0 ? std::max<std::size_t>(run_.buffer_bytes / total, 1) : 1;
  const std::size_t shift = total * (iteration % steps);
  for (int step = 0; step < run_.collective.steps(run_.nranks()); ++step) {
    if (ranks_.size() > 1) group_start();
    for (std::size_t i = 0; i < ranks_.size(); ++i) issue_step(i, place, shift, step);
    if (ranks_.size() > 1) group_end();
  }
}

void Case::issue_step(std::size_t index, Place place, std::size_t shift, int step) {
  const RankResources& rank = ranks_[index];
  const Seat seat = this->seat(rank, place);
  const std::size_t own = seat.in_place ? static_cast<std::size_t>(rank.rank) * type_.bytes : 0;
  run_step(run_.collective,
           {buffer(seat.in_place ? rank.receive : rank.send) + shift + own * shape_.in_place_send,
            buffer(rank.receive) + shift + own * shape_.in_place_receive, shape_, seat, type_.bytes,
            type_.nccl, ops_[index], rank.comm, rank.stream, step},
           run_.scheme);
}

void Case::group_start() {
  if (run_.scheme == nullptr) return check_nccl(ncclGroupStart(), "ncclGroupStart");
  check_terse(run_.scheme->api(), run_.scheme->api().group_start());
}

void Case::group_end() {
  if (run_.scheme == nullptr) return check_nccl(ncclGroupEnd(), "ncclGroupEnd");
  check_terse(run_.scheme->api(), run_.scheme->api().group_end());
}

void Case::synchronize() {
  for (const RankResources& rank : ranks_) {
    run_.device.select(rank.device);
    run_.device.synchronize(rank.stream);
  }
}

Clocks Case::create_clocks(std::size_t points) const {
  Clocks clocks;
  for (const RankResources& rank : ranks_) {
    run_.device.select(rank.device);
    clocks.push_back(run_.device.create_clock(rank.stream, points));
  }
  return clocks;
}

void Case::stamp(std::size_t point, const Clocks& clocks) const {
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    run_.device.select(ranks_[i].device);
    clocks[i]->stamp(point);
  }
}

bool Case::is_checked(Place place) const {
  return place == Place::kOutOfPlace || run_.collective.checked_in_place;
}

bool Case::reports_wrong() const {
  if (run_.options.check == 0 || round_input(0).kind != InputKind::kExact) return false;
  const bool lossy = run_.scheme != nullptr && !run_.scheme->lossless();
  return !lossy || run_.options.check_given;
}

Verdict Case::verify(Place place, int round) {
  const Input input = round_input(round);
  for (const RankResources& rank : ranks_) {
    fill(input, rank.rank, shape_.send, buffer(rank.send));
    run_.device.zero(buffer(rank.receive), run_.buffer_bytes);
    if (place == Place::kInPlace) place_input(rank);
  }
  issue(place, 0);
  synchronize();
  Verdict verdict;
  std::vector<unsigned char> output(shape_.receive * type_.bytes);
  for (const RankResources& rank : ranks_) {
    const Seat seat = this->seat(rank, place);
    const std::size_t offset = seat.in_place ? shape_.in_place_receive : 0;
    run_.device.copy_out(
        output.data(),
        buffer(rank.receive) + static_cast<std::size_t>(rank.rank) * offset * type_.bytes,
        output.size());
    if (reports_wrong()) {
      verdict.wrong +=
          static_cast<double>(count_wrong(run_.collective, shape_, input, seat, output.data()));
    }
    const bool receives = seat.is_root() || !run_.collective.only_root_receives;
    if (run_.options.shows_error() && type_.is_float && receives) {
      const SquaredError error = measure_error(run_.collective, shape_, input, seat, output.data());
      verdict.error.error += error.error;
      verdict.error.norm += error.norm;
    }
    verdict.checksums.push_back(checksum(output.data(), output.size()));
  }
  return verdict;
}

}  // namespace terse::perf

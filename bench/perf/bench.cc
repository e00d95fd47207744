#include "bench.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <numeric>

#include "case.h"
#include "table.h"
#include "timing.h"

namespace terse::perf {
namespace {

std::vector<const DataType*> selected_types(const Options& options) {
  if (options.datatype != "all") return {&find_data_type(options.datatype)};
  std::vector<const DataType*> types;
  for (const DataType& type : data_types()) types.push_back(&type);
  return types;
}

std::vector<Operation> selected_operations(const Run& run) {
  const Operations kind = run.collective.operations;
  if (kind == Operations::kNone) return {kNoOperation};
  if (kind == Operations::kBlank) return {{"", Op::kNone, ncclSum}};
  std::vector<Operation> selected;
  for (const Operation& operation : operations()) {
    if (run.options.op == "all" || run.options.op == operation.name) selected.push_back(operation);
  }
  if (kind == Operations::kNamed) {
    for (Operation& operation : selected) operation.op = Op::kNone;
  }
  return selected;
}

std::vector<int> selected_roots(const Run& run) {
  if (!run.collective.rooted) return {-1};
  if (run.options.root != Options::kEachRoot) return {run.options.root};
  std::vector<int> roots(static_cast<std::size_t>(run.nranks()));
  std::iota(roots.begin(), roots.end(), 0);
  return roots;
}

std::string time_of_day() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  localtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

// Ranks of a group that should hold the same bytes and do not.
bool disagree(const Run& run, const std::vector<std::uint64_t>& checksums) {
  const auto each = static_cast<std::size_t>(run.options.ranks_per_process());
  std::map<int, std::uint64_t> first;  // by color
  for (std::size_t rank = 0; rank < checksums.size(); ++rank) {
    const auto of_group = first.emplace(run.group.colors[rank / each], checksums[rank]).first;
    if (of_group->second != checksums[rank]) return true;
  }
  return false;
}

// Of one thread, for Team::gather.
std::string checksum_blob(const Verdict& verdict) {
  return {reinterpret_cast<const char*>(verdict.checksums.data()),
          verdict.checksums.size() * sizeof(std::uint64_t)};
}

std::vector<std::uint64_t> all_checksums(const std::vector<std::string>& blobs) {
  std::vector<std::uint64_t> all;
  for (const std::string& blob : blobs) {
    const std::size_t old = all.size();
    all.resize(old + blob.size() / sizeof(std::uint64_t));
    std::memcpy(all.data() + old, blob.data(), blob.size());
  }
  return all;
}

// Adds what the verifying passes find to the measurement; returns the number of failures.
int verify_place(const Run& run, int thread, Case* test, Place place, const DataType& type,
                 Measurement* m) {
  const Options& o = run.options;
  const bool wrong = test->reports_wrong();
  const bool error = o.shows_error() && type.is_float;
  if (!test->is_checked(place) || (!wrong && !error && !o.checksum)) return 0;
  bool failed = false;
  for (int round = 0; round < (wrong ? o.check : 1) && !failed; ++round) {
    const Verdict verdict = test->verify(place, round);
    const double all_wrong = run.team.combine(thread, verdict.wrong, Average::kSum);
    const SquaredError sums = {run.team.combine(thread, verdict.error.error, Average::kSum),
                               run.team.combine(thread, verdict.error.norm, Average::kSum)};
    m->checksums = all_checksums(run.team.gather(thread, checksum_blob(verdict)));
    if (wrong) m->wrong = all_wrong;
    if (error && round == 0) m->error = relative_error(sums);
    const bool lossless = run.scheme == nullptr || run.scheme->lossless();
    failed = (lossless && wrong && all_wrong > 0) || (error && !std::isfinite(*m->error)) ||
             (run.collective.same_everywhere && disagree(run, m->checksums) &&
              (o.checksum || run.scheme != nullptr));
  }
  if (!o.checksum) m->checksums.clear();
  return failed ? 1 : 0;
}

struct Sweep {
  const Run& run;
  int thread;
  Outcome outcome;

  bool prints() const { return thread == 0; }
  void print(const std::string& text) const {
    if (prints()) run.print(text);
  }
};

void warm_up(Sweep* sweep, Case* test, const std::vector<std::size_t>& sizes) {
  for (std::size_t size = sizes.front(); size <= sizes.back();
       size = std::max<std::size_t>(size * 2, 1)) {
    test->set_size(size);
    for (int i = 0; i < sweep->run.options.warmup; ++i) {
      test->issue(Place::kOutOfPlace, static_cast<std::size_t>(i));
    }
    test->synchronize();
  }
}

void run_size(Sweep* sweep, Case* test, const DataType& type, const Operation& operation,
              int root) {
  const Run& run = sweep->run;
  Row row = {test->total_bytes(), test->shape().parameter, type.name, operation.name, root, {}, {}};
  const std::string name = row.type + " " + row.op + " of " + std::to_string(row.size) + " bytes";
  const auto begin = [&](const char* what) {
    if (sweep->prints()) run.progress(what + name);
  };
  sweep->print(table_row_start(row));
  for (const Place place : {Place::kOutOfPlace, Place::kInPlace}) {
    const bool in_place = place == Place::kInPlace;
    Measurement& m = in_place ? row.in_place : row.out_of_place;
    m.left_out = !run.options.measures(in_place);
    if (m.left_out) {
      sweep->print(table_measurement(run.options, m));
      continue;
    }
    begin("timing ");
    test->prepare_place(place);
    m = time_calls(run, sweep->thread, test, place);
    begin("verifying ");
    sweep->outcome.summary.failures += verify_place(run, sweep->thread, test, place, type, &m);
    sweep->outcome.summary.mean_busbw += m.busbw;
    sweep->print(table_measurement(run.options, m));
  }
  sweep->print(table_row_end(run.options, run.layout, row, time_of_day()) + table_checksums(row));
  if (run.collective.notes != nullptr && !row.out_of_place.left_out) {
    sweep->print(run.collective.notes(test->shape(), type.bytes, run.nranks(),
                                      row.out_of_place.time * 1e-6));
  }
  sweep->outcome.rows.push_back(std::move(row));
}

void run_sizes(Sweep* sweep, const DataType& type, const Operation& operation, int root) {
  const Run& run = sweep->run;
  run.team.barrier(sweep->thread);
  Case test(run, sweep->thread, type, operation, root);
  test.fill_buffers();
  const std::vector<std::size_t> all_sizes = sizes(run, type);
  warm_up(sweep, &test, all_sizes);
  for (long cycle = 0; run.options.cycles == 0 || cycle < run.options.cycles; ++cycle) {
    for (const std::size_t size : all_sizes) {
      test.set_size(size);
      run_size(sweep, &test, type, operation, root);
    }
  }
}

}  // namespace

std::vector<std::size_t> sizes(const Run& run, const DataType& type) {
  const Options& o = run.options;
  if (!run.files.empty()) {
    const std::size_t count = run.files.front()->count();
    return {run.collective.total_of_input(count, run.nranks()) * type.bytes};
  }
  std::vector<std::size_t> sizes;
  for (std::size_t size = o.min_bytes; size <= o.max_bytes;) {
    sizes.push_back(size);
    const std::size_t next =
        o.step_factor > 1 ? size * static_cast<std::size_t>(o.step_factor) : size + o.step_bytes;
    if (next <= size) break;  // a step of 0 with one size, or overflow
    size = next;
  }
  return sizes;
}

Outcome run_thread(const Run& run, int thread) {
  Sweep sweep = {run, thread, {}};
  for (const DataType* type : selected_types(run.options)) {
    for (const Operation& operation : selected_operations(run)) {
      for (const int root : selected_roots(run)) run_sizes(&sweep, *type, operation, root);
    }
  }
  if (!sweep.outcome.rows.empty()) {
    const double places = run.options.place == "both" ? 2 : 1;
    sweep.outcome.summary.mean_busbw /= places * static_cast<double>(sweep.outcome.rows.size());
  }
  return std::move(sweep.outcome);
}

}  // namespace terse::perf

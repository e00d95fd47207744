#include "bench.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include "case.h"
#include "table.h"
#include "timing.h"

namespace terse::perf {
namespace {

std::vector<const DataType*> SelectedTypes(const Options& options) {
  if (options.datatype != "all") return {&FindDataType(options.datatype)};
  std::vector<const DataType*> types;
  for (const DataType& type : DataTypes()) types.push_back(&type);
  return types;
}

std::vector<const Operation*> SelectedOperations(const Run& run) {
  if (!run.collective.reduces) return {&kNoOperation};
  if (run.options.op != "all") return {&FindOperation(run.options.op)};
  std::vector<const Operation*> operations;
  for (const Operation& operation : Operations()) operations.push_back(&operation);
  return operations;
}

std::string TimeOfDay() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  localtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

// Ranks that should hold the same bytes and do not.
bool Disagree(const std::vector<std::uint64_t>& checksums) {
  return std::adjacent_find(checksums.begin(), checksums.end(), std::not_equal_to<>()) !=
         checksums.end();
}

// Of one thread, for Team::Gather.
std::string ChecksumBlob(const Verdict& verdict) {
  return {reinterpret_cast<const char*>(verdict.checksums.data()),
          verdict.checksums.size() * sizeof(std::uint64_t)};
}

std::vector<std::uint64_t> AllChecksums(const std::vector<std::string>& blobs) {
  std::vector<std::uint64_t> all;
  for (const std::string& blob : blobs) {
    const std::size_t old = all.size();
    all.resize(old + blob.size() / sizeof(std::uint64_t));
    std::memcpy(all.data() + old, blob.data(), blob.size());
  }
  return all;
}

// Adds what the verifying passes find to the measurement; returns the number of failures.
int VerifyPlace(const Run& run, int thread, Case* test, Place place, const DataType& type,
                Measurement* m) {
  const Options& o = run.options;
  const bool wrong = test->reports_wrong();
  const bool error = o.ShowsError() && type.is_float;
  if (!wrong && !error && !o.checksum) return 0;
  bool failed = false;
  for (int round = 0; round < (wrong ? o.check : 1) && !failed; ++round) {
    const Verdict verdict = test->Verify(place, round);
    const double all_wrong = run.team.Combine(thread, verdict.wrong, Average::kSum);
    const SquaredError sums = {run.team.Combine(thread, verdict.error.error, Average::kSum),
                               run.team.Combine(thread, verdict.error.norm, Average::kSum)};
    m->checksums = AllChecksums(run.team.Gather(thread, ChecksumBlob(verdict)));
    if (wrong) m->wrong = all_wrong;
    if (error && round == 0) m->error = RelativeError(sums);
    const bool lossless = run.scheme == nullptr || run.scheme->lossless();
    failed = (lossless && wrong && all_wrong > 0) || (error && !std::isfinite(*m->error)) ||
             (run.collective.same_everywhere && Disagree(m->checksums) &&
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
  void Print(const std::string& text) const {
    if (prints()) run.print(text);
  }
};

void WarmUp(Sweep* sweep, Case* test, const std::vector<std::size_t>& sizes) {
  for (std::size_t size = sizes.front(); size <= sizes.back();
       size = std::max<std::size_t>(size * 2, 1)) {
    test->SetSize(size);
    for (int i = 0; i < sweep->run.options.warmup; ++i) {
      test->Issue(Place::kOutOfPlace, static_cast<std::size_t>(i));
    }
    test->Synchronize();
  }
}

void RunSize(Sweep* sweep, Case* test, const DataType& type, const Operation& operation) {
  const Run& run = sweep->run;
  Row row = {test->total_bytes(), test->shape().parameter, type.name, operation.name, -1, {}, {}};
  const std::string name = row.type + " " + row.op + " of " + std::to_string(row.size) + " bytes";
  const auto begin = [&](const char* what) {
    if (sweep->prints()) run.progress(what + name);
  };
  sweep->Print(TableRowStart(row));
  for (const Place place : {Place::kOutOfPlace, Place::kInPlace}) {
    Measurement& m = place == Place::kInPlace ? row.in_place : row.out_of_place;
    begin("timing ");
    test->PreparePlace(place);
    m = Time(run, sweep->thread, test, place);
    begin("verifying ");
    sweep->outcome.summary.failures += VerifyPlace(run, sweep->thread, test, place, type, &m);
    sweep->outcome.summary.mean_busbw += m.busbw;
    sweep->Print(TableMeasurement(run.options, m));
  }
  sweep->Print(TableRowEnd(run.options, row, TimeOfDay()) + TableChecksums(row));
  sweep->outcome.rows.push_back(std::move(row));
}

}  // namespace

std::vector<std::size_t> Sizes(const Run& run, const DataType& type) {
  const Options& o = run.options;
  if (!run.files.empty()) {
    const int nranks = static_cast<int>(run.files.size());
    return {run.collective.total_of_input(run.files.front()->count(), nranks) * type.bytes};
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

Outcome RunThread(const Run& run, int thread) {
  Sweep sweep = {run, thread, {}};
  for (const DataType* type : SelectedTypes(run.options)) {
    for (const Operation* operation : SelectedOperations(run)) {
      run.team.Barrier(thread);
      Case test(run, thread, *type, *operation);
      test.FillBuffers();
      const std::vector<std::size_t> sizes = Sizes(run, *type);
      WarmUp(&sweep, &test, sizes);
      for (long cycle = 0; run.options.cycles == 0 || cycle < run.options.cycles; ++cycle) {
        for (const std::size_t size : sizes) {
          test.SetSize(size);
          RunSize(&sweep, &test, *type, *operation);
        }
      }
    }
  }
  if (!sweep.outcome.rows.empty()) {
    sweep.outcome.summary.mean_busbw /= 2.0 * static_cast<double>(sweep.outcome.rows.size());
  }
  return std::move(sweep.outcome);
}

}  // namespace terse::perf

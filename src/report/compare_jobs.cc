#include "report/compare_jobs.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "base/text.h"

namespace terse::report {
namespace {

// Calls of one collective in a job, of all ranks and communicators. `sum` has what they really
// sent: observed ones what NCCL did.
struct Side {
  Sum sum;
  uint64_t timed = 0;
  double seconds = 0;  // of the timed calls
  Distribution errors;
  std::set<std::string> schemes;

  double seconds_of_a_call() const {
    return timed == 0 ? NAN : seconds / static_cast<double>(timed);
  }
  double median_error() const { return errors.count() == 0 ? NAN : errors.median(); }
};

// By collective; "" has the native calls of all.
using Sides = std::map<std::string, Side>;

// Observed calls have sent what NCCL did, and are counted among the native ones, too.
void take_as_native(Sides& sides) {
  Sum& native = sides[""].sum;
  for (auto& [collective, side] : sides) {
    if (collective.empty()) continue;
    side.sum.wire = side.sum.raw;
    native.calls -= side.sum.calls;
    native.wire.bytes -= side.sum.wire.bytes;
    native.wire.off_node -= side.sum.wire.off_node;
  }
}

Sides sides_of(const Merged& merged) {
  Sides sides;
  for (const MergedCommunicator& c : merged.communicators) {
    for (const MergedRow& row : c.rows) {
      Side& side = sides[row.kind().collective];
      for (const RankRow& r : row.ranks) {
        side.sum.add(r.row);
        side.timed += r.row.times.calls;
        side.seconds += r.row.times.total;
        side.errors.add(r.row.error.relative);
      }
      side.schemes.insert(row.kind().scheme);
    }
    Side& native = sides[""];
    for (const auto& [reason, calls] : c.bypasses) native.sum.calls += static_cast<double>(calls);
    native.sum.wire.bytes += c.native.bytes;
    native.sum.wire.off_node += c.native.off_node;
  }
  if (merged.observed) take_as_native(sides);
  return sides;
}

// One figure of both jobs. `less`: words for a ratio of the first to the second.
std::string line(const char* name, double a, double b, std::string (*show)(double),
                 const char* less) {
  if (!(a > 0) && !(b > 0)) return "";
  const auto cell = [&](double x) { return x > 0 ? show(x) : std::string("-"); };
  const std::string ratio =
      less != nullptr && a > 0 && b > 0 ? fmt::format("  {:.2f} {}", a / b, less) : "";
  return fmt::format("  {:20}  {:>12}  {:>12}{}\n", name, cell(a), cell(b), ratio);
}

std::string show_calls(double calls) { return fmt::format("{:.0f}", calls); }

std::string block(const std::string& title, const Side& a, const Side& b) {
  return title + "\n" + line("calls of all ranks", a.sum.calls, b.sum.calls, show_calls, nullptr) +
         line("sent", a.sum.wire.bytes, b.sum.wire.bytes, show_bytes, "times less") +
         line("of it off the nodes", a.sum.wire.off_node, b.sum.wire.off_node, show_bytes,
              "times less") +
         line("a call takes", a.seconds_of_a_call(), b.seconds_of_a_call(), show_seconds,
              "times as fast") +
         line("error, median", a.median_error(), b.median_error(), show_error, nullptr);
}

std::string joined(const std::set<std::string>& names) {
  return names.empty() ? "native" : fmt::format("{}", fmt::join(names, ", "));
}

std::string heading(const char* name, const Merged& merged) {
  size_t ranks = 0;
  for (const MergedCommunicator& c : merged.communicators)
    ranks = std::max(ranks, static_cast<size_t>(c.ranks));
  return fmt::format("{}  {}, terse {}, policy {}{}\n", name, counted(ranks, "rank"), merged.terse,
                     shortened(merged.policy, 60), merged.observed ? " (only observed)" : "");
}

}  // namespace

std::string compare(const Merged& a, const Merged& b) {
  const Sides of_a = sides_of(a), of_b = sides_of(b);
  std::set<std::string> collectives;
  for (const Sides* sides : {&of_a, &of_b})
    for (const auto& [collective, side] : *sides)
      if (!collective.empty()) collectives.insert(collective);
  const auto side = [](const Sides& sides, const std::string& name) {
    const auto found = sides.find(name);
    return found == sides.end() ? Side{} : found->second;
  };
  std::string text =
      heading("A", a) + heading("B", b) + fmt::format("\n{:24}{:>12}  {:>12}\n", "", "A", "B");
  for (const std::string& collective : collectives) {
    const Side left = side(of_a, collective), right = side(of_b, collective);
    text += block(collective, left, right);
    text += fmt::format("  A {}\n  B {}\n", shortened(joined(left.schemes), 80),
                        shortened(joined(right.schemes), 80));
  }
  return text + block("native calls", side(of_a, ""), side(of_b, ""));
}

}  // namespace terse::report

// Report of a process on its communicators at the end, as a value; FORMAT.md describes the file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/distribution.h"
#include "base/downsampled_series.h"
#include "base/sizes.h"
#include "plan/topology.h"

namespace terse::report {

constexpr const char* kFormat = "terse-report";
constexpr int kVersion = 2;

// Seconds, summed over `calls`. The phases of a call overlap.
struct Times {
  uint64_t calls = 0;
  double total = 0, encode = 0, communicate = 0, decode = 0;
  double fused = 0;             // of fused calls, which have no phases
  double predicted = 0;         // of auto, which has chosen the scheme; 0: it has not
  double predicted_native = 0;  // of observed calls, which `predicted` has with their scheme

  bool operator==(const Times&) const = default;
};

// Calls that also ran natively, one after the other: seconds, summed over `calls`, which is without
// the first of a kind.
struct Race {
  uint64_t calls = 0;
  double native = 0, compressed = 0;

  double speedup() const { return calls == 0 || compressed == 0 ? 0 : native / compressed; }
  Race& operator+=(const Race& other);
  bool operator==(const Race&) const = default;
};

// Compressed results against native ones.
struct Error {
  Distribution relative;                  // of each call; infinite where the native result is zero
  double squares = 0, exact_squares = 0;  // sums: of the difference, and of the native result
  double largest = 0;                     // difference of a single element
  uint64_t lost = 0;         // elements that only the native result has as NaN or infinity
  uint64_t spread = 0;       // that only the compressed one has so
  DownsampledSeries course;  // of the finite ones, by the calls' numbers among those of all ranks

  uint64_t calls() const { return relative.count(); }
  double pooled_relative() const;  // of all calls together: those of large numbers drown the others
  bool operator==(const Error&) const = default;
};

// What the errors of a scheme are to be compared with.
struct ErrorScale {
  double gaussian =
      0;  // relative error of one encoding of Gaussian data in the format that errs most
  bool unbiased = false;  // no format rounds to nearest: errors average out

  bool operator==(const ErrorScale&) const = default;
};

// The calls of one kind on one communicator and rank.
struct Row {
  std::optional<uint32_t> rule;  // its number in the policy; empty: the caller named the scheme
  std::string collective, scheme;
  std::string message;  // of observed calls: "fp32, sum, 4 MB, in place"; "": not told apart
  uint64_t calls = 0, fused_calls = 0;
  plan::Traffic raw, wire;
  Times times;
  Race race;
  Error error;
  std::optional<ErrorScale> error_scale;  // empty: no errors were measured

  double ratio() const;  // raw to wire; NaN: nothing was sent
  double off_node_ratio() const;
  double off_pod_ratio() const;
  bool leaves_node() const { return raw.off_node != 0 || wire.off_node != 0; }
  bool leaves_pod() const { return raw.off_pod != 0 || wire.off_pod != 0; }
  bool operator==(const Row&) const = default;
};

// Levels that calls of a learned codec go by.
struct Levels {
  std::string collective, dtype, scheme;
  uint64_t count = 0;  // elements, as the call has it
  uint64_t calls = 0, fits = 0;
  std::vector<float> at;  // on [0, 1], ascending

  bool operator==(const Levels&) const = default;
};

// How large whole messages were, by what became of the calls: compressed; skipped, though a rule is
// for them; native, for there is none.
struct MessageSizes {
  Sizes compressed, skipped, native;

  bool operator==(const MessageSizes&) const = default;
};

// A compressed call and its steps; times in nanoseconds since 1970, by the clock of the host.
struct TracedStep {
  std::string name, lane;
  int64_t begin = 0, end = 0;

  bool operator==(const TracedStep&) const = default;
};
struct TracedCall {
  std::string collective, dtype, scheme;
  uint64_t count = 0, raw_bytes = 0, wire_bytes = 0;
  int64_t begin = 0, end = 0;
  std::vector<TracedStep> steps;
  uint64_t left_out = 0;  // steps

  bool operator==(const TracedCall&) const = default;
};

struct Names {
  std::string own;                 // that the program gives it; empty: none
  std::string made_from;           // of what it was split or has grown from
  std::optional<uint64_t> number;  // among those of its processes; empty: not agreed

  bool operator==(const Names&) const = default;
};

struct Communicator {
  uint64_t id = 0;  // the same on all its ranks and on no other communicator; 0: not agreed
  Names names;
  int rank = 0, ranks = 0;
  bool released = false;    // otherwise what its queues still had to measure is missing
  int nodes = 0, node = 0;  // how many its ranks are on, and this rank's; 0 nodes: not known
  int pods = 0;             // that the nodes are in; 0: there are none
  plan::Traffic native;
  std::map<std::string, uint64_t> bypasses;  // calls, by reason
  std::map<std::string, uint64_t> deltas;    // AllGathers of differences, by how they went
  uint64_t scratch_bytes = 0, verify_bytes = 0, state_bytes = 0;
  uint64_t window_bytes = 0;  // of the scratch, for fused calls
  std::vector<Row> rows;
  std::vector<Levels> levels;
  MessageSizes sizes;
  std::vector<TracedCall> trace;  // the last ones, in order

  bool operator==(const Communicator&) const = default;
};

struct Report {
  std::string terse;  // version
  std::string host;
  int64_t pid = 0;
  std::string library;  // that wrote it
  std::string written;  // UTC
  std::string policy;
  std::optional<uint64_t> meter;  // empty: the default of the machine
  uint64_t verify = 0;
  // Seconds since the process made its first communicator, if calls were only observed: their rows
  // have the bytes that the schemes would have sent, NCCL's times, and errors of one encoding.
  std::optional<double> observed;
  uint64_t left_out = 0;  // communicators, when there were very many
  std::vector<Communicator> communicators;

  bool operator==(const Report&) const = default;
};

std::string to_json(const Report& report);
// Throws terse::Error that says what is wrong with the text.
Report from_json(const std::string& text);
// Reads a report from text; empty: it is JSON of another format.
std::optional<Report> report_in(const std::string& text);
// A table for people.
std::string to_text(const Report& report);
// Metrics in Prometheus's text format.
std::string to_metrics(const Report& report);

// Label for people: its name in quotes, or `#2 from "world"`; "": nothing is known.
std::string label(const Names& names);

// "communicator 0123456789abcdef", and its label where it has one.
std::string show_communicator(uint64_t id, const std::string& label);

// NaN: to nothing.
double quotient(double a, double b);

// Numbers as tables show them, with three digits or all whole seconds: "3.88" or "-", "1.5 GB",
// "12.3 ms", "4310 s", "0.65 %".
std::string show_ratio(double ratio);
std::string show_bytes(double bytes);
std::string show_seconds(double seconds);
std::string show_error(double relative);

// Sums over the rows of observed calls.
struct Verdict {
  uint64_t calls = 0, others = 0;  // that would be compressed, and that would not
  uint64_t single_gathers = 0;     // of fp32, of kinds that came once: of a checkpoint?
  plan::Traffic raw, wire;
  double in_calls = 0, seconds = 0;  // of the calls, and of the ranks
  double predicted = 0, predicted_native = 0;
  Distribution error;  // of one encoding

  Verdict& operator+=(const Verdict& other);
  // Seconds that the ranks would save, by the profile; < 0: lose. At most what the calls took, for
  // a profile may be of a slower network.
  double saved() const;
};
Verdict verdict_of(const Report& report);

// "96 of 120 calls would be compressed: ..."
std::string show_verdict(const Verdict& verdict);

// "one encoding of Gaussian data errs by 0.92 %; unbiased: errors average out over steps"; "": no
// errors were measured.
std::string show_error_scale(const Row& row);

// "natively 12 ms a call, compressed 3 ms: 4.00 times as fast, by 9 calls that ran both ways"; "":
// none did.
std::string show_race(const Race& race, uint64_t calls);

}  // namespace terse::report

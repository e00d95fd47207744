// The policy: which scheme compresses a call, by rules, of which the first that matches wins. A
// pure function of what all ranks know of the call.
//
// A rule is conditions, all of which must hold, and a scheme, which may be off: such calls stay
// native. It comes from a line (TERSE_SCHEME) or from a file in TOML (TERSE_POLICY):
//
//   allreduce nodes=2.. bytes=1M.. -> int4      [[rule]]
//                                               collective = "allreduce"
//                                               nodes = "2.."
//                                               bytes = "1M.."
//                                               scheme = "int4"
//
//   collective  allreduce, allgather, ...; without it AllReduce, AllGather and ReduceScatter, for
//               all others are compressed only by rules that name them. A rule with `off` that
//               names none is about all.
//   dtype       float32, float16 or bfloat16
//   op          sum, avg or premulsum; collectives that have no operation then do not match
//   bytes       of the whole message, with K, M or G; `usual..`: as large as mostly gains something
//               (default_min_bytes())
//   shard       bytes of one rank's shard, where a message has some, as for AllGather and
//               ReduceScatter; else of the message. Without a smallest size by one of both at least
//               TERSE_MIN_BYTES where that is set, and with `off` any
//   ranks       of the communicator
//   nodes       hosts that its ranks are on
//   name        of the communicator (ncclConfig_t.commName): a pattern with * and ?
//   tag         of the call (ncclCollConfig_t.userProfilerTag), decimal or hexadecimal after 0x; a
//               call without a configuration has 0, as NCCL's own default
//
// Ranges are FIRST..LAST with both ends included, FIRST.., ..LAST or one number. The scheme may be
// a preset (presets.h). On a line rules are separated by `;`, the names of a list by `,`, the
// conditions by blanks; `collective=` may be left out, and a rule without conditions is its scheme
// alone. A name with blanks stands in double quotes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/match.h"
#include "policy/scheme.h"

namespace terse {

constexpr uint32_t kNoRule = static_cast<uint32_t>(-1);

struct Decision {
  const Scheme* scheme = nullptr;  // null: native, for the reason `bypass`
  uint32_t rule = kNoRule;         // the one that matched
  int bypass = 0;                  // a TERSE_BYPASS reason
};

struct Rule {
  Match match;
  Scheme scheme;
  // Origin of a rule. A preset makes several rules of one that is written.
  unsigned number = 0;  // as written, from 1
  unsigned line = 0;    // in the file; 0: none
  std::string preset;

  // Returns true for equal schemes for equal calls.
  bool operator==(const Rule& other) const {
    return match == other.match && scheme == other.scheme;
  }
};

class Policy {
 public:
  std::vector<Rule> rules;

  // Allocates nothing.
  Decision decide(const Facts& facts) const;
  bool compresses() const;  // true if a rule has a scheme that is not off
  bool asks_nodes() const;  // true if a rule goes by nodes, or is a preset's, whose gain does
  bool chooses() const;     // true if a rule's scheme is auto
  bool asks_name() const;   // true if a rule goes by the communicator's name

  // Returns true if a decision's rule is of a preset; kNoRule is of none.
  bool is_of_preset(uint32_t rule) const { return rule != kNoRule && !rules[rule].preset.empty(); }

  // Returns true if the decision on a call depends on its number of nodes, which is unknown.
  bool turns_on_nodes(const Facts& facts) const;

  // Canonical text: a line that parses back, equal for equal policies.
  std::string print() const;

  // Warnings, a line each: of rules that no call reaches, as an earlier one takes all of theirs; of
  // rules that would leave native what an earlier one compresses; and of rules whose scheme is for
  // other collectives.
  std::vector<std::string> warnings() const;
};

std::string print_rule(const Rule& rule);

// "the preset safe leaves AllGather in fp32 native, and safe-fsdp32 compresses it". Empty for a
// rule that compresses, and for one whose scheme is `off` as written.
std::string why_native(const Rule& rule);

// Name of a rule in messages: "rule 2 (line 7)".
std::string describe_rule(const Rule& rule);

// Both throw Error(ncclInvalidArgument) that says where the text is wrong: "column 12: ...", or
// "FILE:3:7: ..." by line and column. `floor`: bytes of a shard from which on rules that name no
// smallest size compress; without it those of usual sizes do, kUsualShard where there is a largest.
using Floor = std::optional<size_t>;
Policy parse_policy_line(std::string_view text, Floor floor);
Policy parse_policy_file(std::string_view text, const std::string& path, Floor floor);

// Throws Error(ncclInvalidArgument) also for a file that cannot be read.
Policy read_policy_file(const std::string& path, Floor floor);

}  // namespace terse

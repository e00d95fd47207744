// A collective as data: how buffers follow from the count, what each output element should be, how
// bandwidth is counted, and which calls run it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "call.h"
#include "messages.h"
#include "origin.h"
#include "shape.h"

namespace terse::perf {

struct Options;

// What -o says of a collective, and what its table shows.
enum class Operations {
  kReducing,  // it reduces
  kNamed,     // moves data; the names are printed, as nccl-tests does
  kNone,      // moves data: "none"
  kBlank,     // moves data, and nothing is printed
};

struct Collective {
  const char* program;
  Operations operations = Operations::kNone;
  bool rooted = false;              // -r
  bool same_everywhere = false;     // all ranks end with the same bytes
  bool only_root_receives = false;  // the others' buffers stay as they are
  bool checked_in_place = true;     // in place there is no defined result where this is false
  ShapeOf shape;
  TotalOf total_of_input;
  Factor algbw = one;  // of the larger buffer over the time
  Factor busbw = one;
  OriginOf origin;
  NativeCall native = nullptr;        // null: `messages`
  bool (*lacks_native)() = nullptr;   // in an older NCCL, which is then given `messages`
  QuantizedCall quantized = nullptr;  // null: `messages`
  MessagesOf messages = nullptr;
  int (*steps)(int nranks) = [](int) { return 1; };  // each waits for the one before
  // Throws std::invalid_argument where it cannot be run so.
  void (*require)(const Options& options, int nranks) = [](const Options&, int) {};
  // Lines printed below a row. `seconds` is what the call took out of place.
  std::string (*notes)(const Shape& shape, std::size_t bytes, int nranks, double seconds) = nullptr;

  bool reduces() const { return operations == Operations::kReducing; }
};

std::span<const Collective> collectives();

// By name, such as "all_reduce". Throws std::invalid_argument.
const Collective& find_collective(std::string_view name);

// Enqueues one step of one rank; by libterse where there is a scheme.
void run_step(const Collective& collective, const Call& call, const Scheme* scheme);

}  // namespace terse::perf

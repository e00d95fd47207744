#include "policy/settings.h"

#include <cstdlib>
#include <iterator>

#include "base/error.h"
#include "base/log.h"

namespace terse {
namespace {

// A number with an optional K, M or G (powers of 1024).
uint64_t parse_size(std::string_view text) {
  uint64_t unit = 1;
  if (!text.empty()) {
    constexpr std::string_view kUnits = "KMG";
    const size_t k = kUnits.find(text.back());
    if (k != kUnits.npos) {
      unit = uint64_t{1} << 10 * (k + 1);
      text.remove_suffix(1);
    }
  }
  const std::optional<uint64_t> number = parse_number(text);
  if (!number || *number > UINT64_MAX / unit)
    fail(ncclInvalidArgument, "it must be a number of bytes, such as 65536 or 64K");
  return *number * unit;
}

uint64_t parse_plain(std::string_view text) {
  const std::optional<uint64_t> number = parse_number(text);
  if (!number) fail(ncclInvalidArgument, "it must be a whole number");
  return *number;
}

void parse_log_level(std::string_view text) {
  constexpr std::string_view kLevels[] = {"off", "warn", "info", "trace"};
  for (size_t i = 0; i < std::size(kLevels); ++i)
    if (kLevels[i] == text) return set_log_level(static_cast<LogLevel>(i));
  fail(ncclInvalidArgument, "it must be off, warn, info or trace");
}

struct Variable {
  const char* name;
  const char* meaning;
  void (*read)(std::string_view text, Settings& s);
};

constexpr Variable kVariables[] = {
    {"TERSE_SCHEME", "what the preload library compresses with (default off)",
     [](std::string_view text, Settings& s) { s.scheme = parse_scheme(text); }},
    {"TERSE_MIN_BYTES", "messages smaller than this stay native (default 64K)",
     [](std::string_view text, Settings& s) { s.min_bytes = parse_size(text); }},
    {"TERSE_CHUNK_BYTES", "raw bytes of a chunk (default: 1M, and at least 256K a rank)",
     [](std::string_view text, Settings& s) { s.chunk_bytes = parse_size(text); }},
    {"TERSE_SEED", "seed of schemes that name none (default 0)",
     [](std::string_view text, Settings& s) { s.seed = parse_plain(text); }},
    {"TERSE_TIMEOUT", "seconds for all ranks to agree on settings (default 60)",
     [](std::string_view text, Settings& s) {
       const uint64_t seconds = parse_plain(text);
       if (seconds == 0 || seconds > 86400)
         fail(ncclInvalidArgument, "it must be 1 to 86400 seconds");
       s.timeout_seconds = static_cast<unsigned>(seconds);
     }},
    {"TERSE_NCCL", "path of the NCCL to use (default: the program's own)",
     [](std::string_view text, Settings& s) { s.nccl = text; }},
    {"TERSE_CUDA_MODULE", "path of libterse_cuda.so (default: beside terse's own library)",
     [](std::string_view text, Settings& s) { s.cuda_module = text; }},
    {"TERSE_METER", "every n-th compressed call is timed, 0: none (default 1, on GPUs 16)",
     [](std::string_view text, Settings& s) { s.meter = parse_plain(text); }},
    {"TERSE_VERIFY", "every n-th also runs natively, to know its error (default 0: none)",
     [](std::string_view text, Settings& s) { s.verify = parse_plain(text); }},
    {"TERSE_REPORT", "folder for a report at the end, or a name with %r rank %p pid %h host",
     [](std::string_view text, Settings& s) { s.report = text; }},
    {"TERSE_LOG", "off, warn (default), info or trace, on standard error",
     [](std::string_view text, Settings&) { parse_log_level(text); }},
};

}  // namespace

Settings read_settings(const std::function<const char*(const char* name)>& look_up) {
  Settings s;
  for (const Variable& variable : kVariables) {
    const char* text = look_up(variable.name);
    if (text == nullptr || *text == '\0') continue;
    try {
      variable.read(text, s);
    } catch (const Error& e) {
      if (s.error.empty()) s.error = fmt::format("{}=\"{}\": {}", variable.name, text, e.message);
    }
  }
  if (!s.scheme.off) s.policy.rules.push_back({s.scheme, s.min_bytes});
  return s;
}

const Settings& settings() {
  static const Settings s = read_settings([](const char* name) { return std::getenv(name); });
  return s;
}

std::string describe_settings() {
  std::string text;
  for (const Variable& variable : kVariables) {
    const char* value = std::getenv(variable.name);
    text += fmt::format("{:18} {}{}\n", variable.name, variable.meaning,
                        value != nullptr ? fmt::format("; now \"{}\"", value) : "");
  }
  return text;
}

void require_valid(const Settings& s) {
  if (!s.error.empty()) fail(ncclInvalidArgument, "{}", s.error);
}

// FNV-1a, 64 bits.
uint64_t fingerprint(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

uint64_t fingerprint(const Settings& s) {
  return fingerprint(fmt::format("{} {} {} {} {} {}", s.policy.print(), s.min_bytes, s.chunk_bytes,
                                 s.seed, s.verify, s.error));
}

}  // namespace terse

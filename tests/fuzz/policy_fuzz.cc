// Policies of arbitrary text, as a line and as a file: what is accepted prints to a line that
// parses back to the same rules, whatever the floor; what is refused is explained. The first byte
// chooses.
#include <cstdint>

#include "base/error.h"
#include "expect.h"
#include "policy/policy.h"

namespace {

using namespace terse;

Policy parse(bool file, std::string_view text, size_t floor) {
  return file ? parse_policy_file(text, "fuzz.toml", floor) : parse_policy_line(text, floor);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const bool file = data[0] % 2 != 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  Policy policy;
  try {
    policy = parse(file, text, 1000);
  } catch (const Error& e) {
    const char* place = file ? "fuzz.toml:" : "column ";
    expect(e.message.starts_with(place), "an error that says where, not " + e.message);
    return 0;
  }
  policy.warnings();
  const std::string once = policy.print();
  if (policy.rules.empty()) return 0;  // printed as off
  const Policy again = parse_policy_line(once, 7);
  expect(again.rules == policy.rules, "the rules that it printed: " + once);
  expect(again.print() == once, "the same print: " + once);
  return 0;
}

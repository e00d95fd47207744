// Profiles of arbitrary text: what is accepted prints to a text that parses back to the same; what
// is refused is explained, with its place.
#include <cstdint>

#include "base/error.h"
#include "expect.h"
#include "policy/profile_file.h"

using namespace terse;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  model::Profile profile;
  try {
    profile = parse_profile(text, "fuzz.toml");
  } catch (const Error& e) {
    expect(e.message.starts_with("fuzz.toml:"), "an error that says where, not " + e.message);
    return 0;
  }
  const std::string once = print_profile(profile);
  expect(parse_profile(once, "once") == profile, "the profile that it printed: " + once);
  for (const model::Curve& c : profile.measured)
    for (const size_t bytes : {size_t{0}, c.points.back().bytes, size_t{1} << 62})
      expect(c.seconds(bytes) > 0, "a time");
  return 0;
}

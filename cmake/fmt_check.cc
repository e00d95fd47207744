// Whether fmt.cc has all that this version of fmt leaves to it.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ctime>
#include <vector>

int main(int argc, char**) {
  const std::vector<int> numbers{argc, 2};
  const std::string text = fmt::format("{} {:.4g} {:>8} {:x} {} {:%Y} {}", argc, 0.5 * argc, "text",
                                       255u, fmt::join(numbers, ", "), fmt::gmtime(std::time_t{0}),
                                       static_cast<void*>(nullptr));
  fmt::print("{} {:.3f} {}\n", text, 1.5f, true);
  fmt::print(stderr, "{}\n", text);
}

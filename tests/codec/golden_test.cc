// The golden files, held against the implementation; and against the oracle, which wrote them.
#include "golden.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "codec/container.h"

namespace terse::codec {
namespace {

const std::string kDirectory = TERSE_TEST_DATA;

// TERSE_BLESS=1 writes the files anew: review the difference, and raise the format's version.
TEST(Golden, FilesAreTheOracles) {
  if (std::getenv("TERSE_BLESS") != nullptr) write_goldens(kDirectory, golden_cases());
  std::map<std::string, std::string> written;
  for (const Golden& g : read_goldens(kDirectory, "")) {
    EXPECT_FALSE(written.contains(g.path())) << g.path() << " is there twice";
    written[g.path()] = print(g);
  }
  for (const Golden& g : golden_cases()) {
    EXPECT_EQ(written[g.path()], print(g)) << g.path();
    written.erase(g.path());
  }
  for (const auto& [path, text] : written) ADD_FAILURE() << path << " is no case";
}

TEST(Golden, Encode) {
  const std::vector<Golden> goldens = read_goldens(kDirectory, "encode");
  EXPECT_GE(goldens.size(), 35u);
  for (const Golden& g : goldens) {
    SCOPED_TRACE(g.path());
    uint64_t seed = 0;
    const Spec spec = parse_spec(g.scheme, &seed);
    const Bytes body = encode(spec, {.seed = seed, .sequence = g.draw}, g.dtype, g.elements);
    Bytes packed(container_size(spec, g.count));
    std::copy(body.begin(), body.end(), packed.begin() + kHeaderBytes);
    seal({spec, g.dtype, g.count}, packed.data());
    EXPECT_EQ(packed, g.packed);
  }
}

TEST(Golden, Decode) {
  const std::vector<Golden> goldens = read_goldens(kDirectory, "decode");
  EXPECT_GE(goldens.size(), 8u);
  for (const Golden& g : goldens) {
    SCOPED_TRACE(g.path());
    Header header{};
    ASSERT_EQ(open(g.packed.data(), g.packed.size(), &header), nullptr);
    ASSERT_EQ(header.count, g.count);
    const Bytes body(g.packed.begin() + kHeaderBytes, g.packed.end());
    EXPECT_EQ(decode(header.spec, body, g.count, g.dtype), g.elements);
  }
}

TEST(Golden, Refuse) {
  const std::vector<Golden> goldens = read_goldens(kDirectory, "refuse");
  EXPECT_GE(goldens.size(), 20u);
  for (const Golden& g : goldens) {
    SCOPED_TRACE(g.path());
    EXPECT_FALSE(oracle::acceptable(g.packed));
    Header header{};
    const char* wrong = open(g.packed.data(), g.packed.size(), &header);
    ASSERT_NE(wrong, nullptr);
    EXPECT_NE(std::string(wrong).find(g.message), std::string::npos) << wrong;
  }
}

}  // namespace
}  // namespace terse::codec

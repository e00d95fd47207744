// A call that is made again and again costs launches alone: it allocates nothing, and the thread
// that makes it waits for nothing.
#include <map>
#include <string>

#include "player.h"

namespace terse::test {
namespace {

using plan::Collective;

// What a call must not do. Streams are waited for by who has called, here too.
constexpr const char* kNever[] = {"cudaMalloc",
                                  "cudaFree",
                                  "cudaHostAlloc",
                                  "cudaFreeHost",
                                  "cudaStreamCreateWithFlags",
                                  "cudaStreamCreateWithPriority",
                                  "cudaStreamDestroy",
                                  "cudaEventCreateWithFlags",
                                  "cudaEventDestroy",
                                  "cudaStreamSynchronize"};

std::map<std::string, size_t> forbidden_calls() {
  const std::map<std::string, size_t> all = fake::calls();
  std::map<std::string, size_t> forbidden;
  for (const char* function : kNever)
    if (const auto made = all.find(function); made != all.end()) forbidden.insert(*made);
  return forbidden;
}

struct Repeated {
  const char* scheme;
  Collective collective;
};
void PrintTo(const Repeated& repeated, std::ostream* out) { *out << repeated.scheme; }

class Repeats : public testing::TestWithParam<Repeated> {};

TEST_P(Repeats, AllocateNothingAndWaitForNothing) {
  const Repeated repeated = GetParam();
  play_ranks(3, [&](Player& player) {
    const DeviceStream stream;
    Piece piece(player, {.collective = repeated.collective,
                         .scheme = parse_scheme(repeated.scheme),
                         .count = 5'003});
    piece.feed(0, stream.get());
    const auto calls = [&](int n) {
      for (int i = 0; i < n; ++i) {
        piece.enqueue(stream.get());
        EXPECT_FALSE(piece.fell_back());
      }
    };
    // Several under way at once, of which some are timed: more than later ones need.
    for (int round = 0; round < 3; ++round) {
      calls(40);
      stream.synchronize();
    }
    const auto before = forbidden_calls();
    EXPECT_GT(before.at("cudaMalloc"), 0u);
    const size_t launches = fake::calls().at("cudaLaunchKernel");
    calls(20);
    EXPECT_EQ(forbidden_calls(), before);
    EXPECT_GT(fake::calls().at("cudaLaunchKernel"), launches);
    stream.synchronize();
  });
}

constexpr Repeated kRepeated[] = {{"int4", Collective::kAllReduce},
                                  {"int8:round=stochastic", Collective::kAllGather},
                                  {"minmax4:block=1024,round=shift", Collective::kReduceScatter},
                                  {"linear8", Collective::kAllReduce},
                                  {"exp8", Collective::kReduceScatter},
                                  {"learned4:learn=1+2", Collective::kAllGather},
                                  {"mxfp4", Collective::kAllToAll},
                                  {"int8", Collective::kBroadcast}};
INSTANTIATE_TEST_SUITE_P(Calls, Repeats, testing::ValuesIn(kRepeated), [](const auto& info) {
  const std::string scheme = info.param.scheme;
  return scheme.substr(0, scheme.find(':')) + plan::name(info.param.collective);
});

}  // namespace
}  // namespace terse::test

// Ranks that are at different calls on GPUs: kernels find it, write nothing, and the communicator
// is refused from then on.
#include "recorded_call.h"

namespace terse::test {
namespace {

using plan::Collective;

// Of each rank its own type, of as many bytes.
Call own_call(const Player& player, const char* scheme) {
  return call_of(Collective::kAllReduce, scheme, 6'001,
                 player.rank == 0 ? ncclFloat16 : ncclBfloat16);
}

void expect_refused(Piece& piece, cudaStream_t stream) {
  piece.expect_untouched(stream);
  EXPECT_EQ(piece.try_enqueue(stream), ncclInvalidUsage);
  const std::string error = terseGetLastError();
  for (const char* part : {"different calls", "6001 float16", "6001 bfloat16", "communicator"})
    EXPECT_NE(error.find(part), std::string::npos) << error;
  piece.expect_untouched(stream);
}

// Calls on which the ranks agree first. Their memory is freed in the end, for that waits for what
// all ranks have enqueued.
class Before {
 public:
  Before(Player& player, const char* scheme, cudaStream_t stream)
      : half_(player, call_of(Collective::kAllReduce, scheme, 6'001, ncclFloat16)),
        bfloat_(player, call_of(Collective::kAllReduce, scheme, 6'001, ncclBfloat16)) {
    for (Piece* piece : {&half_, &bfloat_}) piece->play(0, stream);
  }

 private:
  Piece half_, bfloat_;
};

constexpr const char* kSchemes[] = {"int8", "linear8", "exp8"};

TEST(Mismatch, WritesNothingAndRefusesTheCommunicator) {
  for (const char* scheme : kSchemes)
    play_ranks(2, [&](Player& player) {
      const DeviceStream stream;
      const Before before(player, scheme, stream.get());
      Piece piece(player, own_call(player, scheme));
      piece.feed(1, stream.get());
      EXPECT_EQ(piece.try_enqueue(stream.get()), ncclSuccess);
      expect_refused(piece, stream.get());
    });
}

TEST(Mismatch, OfRecordedCallsIsFoundWhenTheyRun) {
  for (const char* scheme : kSchemes)
    play_ranks(2, [&](Player& player) {
      const DeviceStream stream;
      const Before before(player, scheme, stream.get());
      Piece piece(player, own_call(player, scheme));
      const RecordedGraph graph(stream.get(), [&] { piece.enqueue(stream.get()); });
      piece.feed(1, stream.get());
      for (int run = 0; run < 2; ++run) graph.launch(stream.get());
      expect_refused(piece, stream.get());
    });
}

}  // namespace
}  // namespace terse::test

// The CUDA module is missing, or another library, which TERSE_CUDA_MODULE says: an error at the
// first call that needs it.
#include "player.h"

namespace terse::test {
namespace {

void expect_errors_with(const std::string& cause) {
  run_ranks(2, [&](int rank, ncclComm_t comm) {
    std::vector<float> data(10, 1.0f);
    const SchemeHandle scheme(parse_scheme("int8"));
    for (int k = 0; k < 2; ++k) {
      EXPECT_EQ(terseAllReduce(data.data(), data.data(), 10, ncclFloat32, ncclSum, scheme.get(),
                               comm, nullptr),
                ncclSystemError);
      const std::string message = terseGetLastError();
      for (const std::string& part :
           {std::string("terseAllReduce"), std::string("communicator"),
            "rank " + std::to_string(rank) + " of 2", std::string("CUDA module"), cause})
        EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
    }
    EXPECT_EQ(data, std::vector<float>(10, 1.0f));
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

// Which of them it is TERSE_CUDA_MODULE says.
TEST(Module, ThatIsMissingIsAClearError) { expect_errors_with("/nonexistent"); }

TEST(Module, ThatIsAnotherLibraryIsAClearError) {
  expect_errors_with("libc.so.6 is not terse's CUDA module");
}

TEST(Module, NamesTheDriverThatIsTooOld) {
  const std::string built =
      std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION / 10 % 100);
  fake::set_driver(CUDART_VERSION - 1000);
  play_ranks(2, [&](Player& player) {
    const DeviceStream stream;
    Piece piece(player, {.scheme = parse_scheme("int8"), .count = 100});
    EXPECT_EQ(piece.try_enqueue(stream.get()), ncclSystemError);
    const std::string message = terseGetLastError();
    for (const std::string& part : {"rank " + std::to_string(player.rank) + " of 2",
                                    std::string("the driver is for CUDA "), "built with " + built})
      EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
  });
  fake::set_driver(CUDART_VERSION + 10);
  play_ranks(2, [](Player& player) {
    const DeviceStream stream;
    Piece(player, {.scheme = parse_scheme("int8"), .count = 100}).play(0, stream.get());
  });
}

// Nor is anything asked of the device that only kernels need.
TEST(Module, LoadsNoKernelsWhereNothingIsCompressed) {
  play_ranks(2, [](Player& player) {
    const DeviceStream stream;
    Piece native(player, {.scheme = parse_scheme("off"), .count = 100});
    fake::fail("cudaFuncGetAttributes", cudaErrorNoKernelImageForDevice);
    native.feed(0, stream.get());
    native.enqueue(stream.get());
    native.expect_exact(stream.get());
    EXPECT_FALSE(fake::failed());
    fake::fail("cudaFuncGetAttributes", cudaErrorNoKernelImageForDevice);
    Piece compressed(player, {.scheme = parse_scheme("int8"), .count = 100});
    EXPECT_EQ(compressed.try_enqueue(stream.get()), ncclSystemError);
    EXPECT_TRUE(fake::failed());
  });
}

// Errors of the device are no reason not to try again, when all ranks begin anew: another rank,
// which had none, would wait in the first call.
TEST(Module, NamesTheDeviceThatItCannotUse) {
  play_ranks(2, [](Player& player) {
    const DeviceStream stream;
    Piece piece(player, {.scheme = parse_scheme("int8"), .count = 100});
    const std::string rank = "rank " + std::to_string(player.rank) + " of 2";
    const auto expect_failure = [&](const char* function, cudaError_t error, ncclResult_t wanted,
                                    const std::string& text) {
      fake::fail(function, error);
      EXPECT_EQ(piece.try_enqueue(stream.get()), wanted);
      EXPECT_TRUE(fake::failed()) << function;
      const std::string message = terseGetLastError();
      for (const std::string& part :
           {std::string("terseAllReduce: a new communicator"), rank, text})
        EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
      EXPECT_EQ(piece.try_enqueue(stream.get()), wanted);
      EXPECT_NE(std::string(terseGetLastError()).find("may be at different calls"),
                std::string::npos);
      EXPECT_EQ(terseCommRelease(player.comm), ncclSuccess);
    };
    expect_failure("cudaDeviceGetAttribute", cudaErrorInvalidDevice, ncclUnhandledCudaError,
                   "cudaDeviceGetAttribute gave cudaErrorInvalidDevice");
    expect_failure(
        "cudaFuncGetAttributes", cudaErrorNoKernelImageForDevice, ncclSystemError,
        "no code for device " + std::to_string(player.rank) + " of compute capability 9.0");
    piece.play(0, stream.get());
  });
}

}  // namespace
}  // namespace terse::test

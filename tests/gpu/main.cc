// Runs the tests of a program that needs a GPU; without one says so and returns 77, "not run".
#include <gtest/gtest.h>

#include <cstdio>

#include "device_buffer.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (terse::gpu::devices() == 0) {
    std::puts("not run: there is no GPU here");
    return 77;
  }
  return RUN_ALL_TESTS();
}

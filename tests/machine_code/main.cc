// Runs the tests, or ends with 77 where there are no listings of the architecture's kernels.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iostream>

#include "kernel_listings.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::filesystem::path folder = terse::machine::listings();
  if (!std::filesystem::exists(folder / "index")) {
    std::string why;
    std::getline(std::ifstream(folder.parent_path() / "missing"), why);
    std::cerr << "skipped: no kernels in " << folder << " (TERSE_MACHINE_CODE): " << why << "\n";
    return 77;
  }
  return RUN_ALL_TESTS();
}

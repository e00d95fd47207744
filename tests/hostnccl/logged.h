// Tests of what hostnccl says in its log.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "nccl_log.h"

namespace hostnccl {

class Logged : public ::testing::Test {
 protected:
  Logged() {
    std::string pattern = std::filesystem::temp_directory_path() / "hostnccl_test.XXXXXX";
    directory_ = mkdtemp(pattern.data());
    setenv("NCCL_DEBUG", "INFO", 1);
    setenv("NCCL_DEBUG_FILE", log().c_str(), 1);
    reset_log();
    std::ofstream(log(), std::ios::app).flush();
    read_.open(log());
  }
  ~Logged() override {
    unsetenv("NCCL_DEBUG");
    unsetenv("NCCL_DEBUG_FILE");
    reset_log();
    std::filesystem::remove_all(directory_);
  }

  bool log_says(const std::string& part) const {
    read_.clear();
    read_.seekg(0);
    const std::string text{std::istreambuf_iterator<char>(read_), {}};
    return text.find(part) != std::string::npos;
  }

 private:
  std::string log() const { return directory_ + "/log"; }
  std::string directory_;
  mutable std::ifstream read_;  // open, for where there are no more descriptors
};

}  // namespace hostnccl

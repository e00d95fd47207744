// How a file is written: whole or not at all, and never in the place of what is no file.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace terse {
namespace {

namespace fs = std::filesystem;

class WriteFile : public testing::Test {
 protected:
  void SetUp() override { fs::create_directory(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string contents(const fs::path& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  size_t files() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }

  const fs::path folder_ = testing::TempDir() + "/terse-write-" + std::to_string(getpid());
};

TEST_F(WriteFile, TakesThePlaceOfAFile) {
  for (const char* text : {"one", "", "another"}) {
    write_file(folder_ / "a", text);
    EXPECT_EQ(contents(folder_ / "a"), text);
    EXPECT_EQ(files(), 1u);
  }
}

// As processes do that are alike even in their number: in containers, each with numbers of its own.
TEST_F(WriteFile, ManyWritersLeaveTheWholeOfOneText) {
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 4; ++writer) {
    writers.emplace_back([this, writer] {
      for (int i = 0; i < 25; ++i)
        EXPECT_NO_THROW(write_file(folder_ / "a", std::string(100'000 + writer, 'a' + writer)));
    });
  }
  for (std::thread& each : writers) each.join();
  const std::string text = contents(folder_ / "a");
  ASSERT_FALSE(text.empty());
  EXPECT_EQ(text, std::string(100'000 + text[0] - 'a', text[0]));
  EXPECT_EQ(files(), 1u);
}

TEST_F(WriteFile, LeavesALinkAndWritesWhatItNames) {
  fs::create_symlink("target", folder_ / "link");
  for (const char* text : {"one", "another"}) {
    write_file(folder_ / "link", text);
    EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
    EXPECT_EQ(contents(folder_ / "target"), text);
    EXPECT_EQ(files(), 2u);
  }
}

TEST_F(WriteFile, WritesToAPipe) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = contents(pipe); });
  write_file(pipe, "through it");
  if (!fs::is_fifo(pipe)) std::abort();  // its reader would wait for ever
  reader.join();
  EXPECT_EQ(read, "through it");
}

// As /dev/stdout is one, of links that end nowhere.
TEST_F(WriteFile, WritesToWhatAPipesDescriptorNames) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  write_file("/proc/self/fd/" + std::to_string(ends[1]), "through it");
  close(ends[1]);
  char read_back[20] = {};
  EXPECT_EQ(read(ends[0], read_back, sizeof read_back), 10);
  EXPECT_EQ(std::string(read_back), "through it");
  close(ends[0]);
}

TEST_F(WriteFile, NamesWhatCannotBeWritten) {
  try {
    write_file(folder_ / "nowhere" / "a", "text");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(e.message.find("nowhere/a: No such file"), std::string::npos) << e.message;
  }
  EXPECT_EQ(files(), 0u);
}

TEST_F(WriteFile, SaysBeforeThatItCannotAndLeavesAllAsItIs) {
  EXPECT_NO_THROW(require_writable(folder_ / "a"));
  EXPECT_EQ(files(), 0u);
  write_file(folder_ / "a", "text");
  EXPECT_NO_THROW(require_writable(folder_ / "a"));
  EXPECT_EQ(contents(folder_ / "a"), "text");
  EXPECT_NO_THROW(require_writable("/dev/null"));
  for (const fs::path& place : {folder_, folder_ / "nowhere" / "a", folder_ / "a" / "b"})
    EXPECT_THROW(require_writable(place), Error) << place;
  EXPECT_EQ(files(), 1u);
}

}  // namespace
}  // namespace terse

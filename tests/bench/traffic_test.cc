#include "traffic.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>

#include "options.h"

namespace terse::perf {
namespace {

std::map<std::string, std::string> variables;

Traffic read(std::map<std::string, std::string> set) {
  variables = std::move(set);
  return Traffic::read([](const char* name) -> const char* {
    const auto at = variables.find(std::string(name).substr(21));  // NCCL_TESTS_ALLTOALLV_
    return at != variables.end() ? at->second.c_str() : nullptr;
  });
}

// Of this process alone: others run such tests beside it.
struct MatrixFile {
  const std::string path = testing::TempDir() + "/traffic_matrix" + std::to_string(getpid());
  ~MatrixFile() { std::filesystem::remove(path); }
};

std::string write(const std::string& text) {
  static const MatrixFile file;
  std::ofstream(file.path) << text;
  return file.path;
}

std::vector<std::size_t> row_of(const Traffic& traffic, int from, const Shape& shape) {
  std::vector<std::size_t> row;
  for (int to = 0; to < 4; ++to) row.push_back(traffic.count(from, to, 4, shape));
  return row;
}

using Row = std::vector<std::size_t>;
const Shape kShape = {0, 0, 240, 0, 0, 4};  // 960 elements of 4 bytes, in units of 16 bytes

TEST(Traffic, FartherRanksGetMore) {
  EXPECT_EQ(row_of(read({}), 0, kShape), (Row{0, 160, 320, 480}));
  EXPECT_EQ(row_of(read({}), 3, kShape), (Row{160, 320, 480, 0}));
  EXPECT_EQ(read({}).max_sent(4, kShape), 960u);
  EXPECT_EQ(read({}).max_received(4, kShape), 960u);
}

TEST(Traffic, IsSpreadAsAsked) {
  EXPECT_EQ(row_of(read({{"SPREAD", "0"}}), 1, kShape), (Row{240, 240, 240, 240}));
  EXPECT_EQ(row_of(read({{"SPREAD", "0.5"}}), 0, kShape), (Row{120, 200, 280, 360}));
}

TEST(Traffic, IsThatOfTheMatrixInWholeUnits) {
  const std::string path = write("0 16 32 50\n64 0 0 0\n\n0 0 0 0\n1 2 3 4\n");
  const Traffic traffic = read({{"MATRIX_FILE", path}});
  EXPECT_EQ(row_of(traffic, 0, kShape), (Row{0, 4, 8, 12}));
  EXPECT_EQ(row_of(traffic, 1, kShape), (Row{16, 0, 0, 0}));
  EXPECT_EQ(row_of(traffic, 3, kShape), (Row{0, 0, 0, 0}));
  EXPECT_EQ(traffic.max_sent(4, kShape), 24u);
  EXPECT_EQ(traffic.max_received(4, kShape), 16u);
  EXPECT_EQ(row_of(read({{"MATRIX_FILE", path}, {"MATRIX_SCALE", "2"}}), 0, kShape),
            (Row{0, 8, 16, 24}));
}

TEST(Traffic, NamesWhatIsWrong) {
  const std::pair<std::map<std::string, std::string>, const char*> wrong[] = {
      {{{"SPREAD", "1.5"}}, "SPREAD=1.5"},
      {{{"SPREAD", "x"}}, "SPREAD=x"},
      {{{"MATRIX_FILE", "/no/such/file"}}, "/no/such/file"},
      {{{"MATRIX_FILE", write("1 2\n3\n")}}, "not square"},
  };
  for (const auto& [set, part] : wrong) {
    try {
      read(set);
      ADD_FAILURE() << part;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(read({{"MATRIX_FILE", write("1 -2\n3 4\n")}}), std::invalid_argument);
  EXPECT_THROW(read({{"MATRIX_FILE", write("\n")}}), std::invalid_argument);
}

TEST(Traffic, RequiresRanksAndSizesOfTheMatrix) {
  const Traffic traffic = read({{"MATRIX_FILE", write("0 64\n32 0\n")}});
  Options o;
  o.min_bytes = o.max_bytes = 64;
  EXPECT_NO_THROW(traffic.require(o, 2));
  EXPECT_THROW(traffic.require(o, 3), std::invalid_argument);
  o.min_bytes = 32;
  EXPECT_THROW(traffic.require(o, 2), std::invalid_argument);
  o.max_bytes = 32;
  EXPECT_THROW(traffic.require(o, 2), std::invalid_argument);
}

}  // namespace
}  // namespace terse::perf

// Tables in the documents that a test has the numbers of.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace terse::test {

inline std::string contents(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Expects the table between the lines "<!-- SOURCE -->" and "<!-- end -->" of a document; with
// TERSE_BLESS puts it there.
inline void expect_table(const std::string& document, const std::string& source,
                         const std::string& table) {
  const std::string path = TERSE_DOCS "/" + document;
  const std::string begin = "<!-- " + source + " -->\n", end = "<!-- end -->\n";
  std::string wanted = contents(path);
  const size_t first = wanted.find(begin), last = wanted.find(end, first);
  ASSERT_TRUE(first != wanted.npos && last != wanted.npos) << path;
  wanted.replace(first, last - first, begin + "\n" + table + "\n");
  if (std::getenv("TERSE_BLESS") != nullptr) std::ofstream(path) << wanted;
  EXPECT_EQ(contents(path), wanted);
}

}  // namespace terse::test

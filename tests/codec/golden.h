// Golden files: packed buffers that are fixed for good (tests/golden/README.md), as text that a
// reviewer can read. A case begins with a line "[name]"; lines "key value" follow, and indented
// lines of bytes that belong to the key above.
#pragma once

#include <string>
#include <vector>

#include "support.h"

namespace terse::codec {

struct Golden {
  std::string file;               // KIND/CODEC; the kind is encode, decode or refuse
  std::string name;               // of the case, once in its file
  std::string about;              // one line, why this case is there
  std::string scheme;             // encode: as terseSchemeParse reads it, all keys given
  Dtype dtype = Dtype::kFloat32;  // of the elements
  uint64_t draw = 0;              // encode
  size_t count = 0;
  Bytes elements;  // encode: what is encoded, decode: what comes out
  Bytes packed;
  std::string message;  // refuse: part of the refusal's text

  std::string kind() const { return file.substr(0, file.find('/')); }
  std::string path() const { return file + "/" + name; }
};

// What the files must say: the oracle's bytes.
std::vector<Golden> golden_cases();

// Text of a case.
std::string print(const Golden& golden);

// Cases of a file's text.
std::vector<Golden> parse_goldens(const std::string& file, const std::string& text);

// Cases of a kind, read from TERSE_TEST_DATA/codec; of all kinds if it is empty.
std::vector<Golden> read_goldens(const std::string& directory, const std::string& kind);

// Writes the cases to DIRECTORY/codec, by name within a file, in place of what is there.
void write_goldens(const std::string& directory, const std::vector<Golden>& goldens);

// "int4:block=32,round=nearest,seed=7"
Spec parse_spec(const std::string& scheme, uint64_t* seed);

}  // namespace terse::codec

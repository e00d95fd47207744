// Golden files: packed buffers that are fixed for good (tests/golden/README.md), as text that a
// reviewer can read: lines "key value", and indented lines of bytes that belong to the key above.
#pragma once

#include <string>
#include <vector>

#include "support.h"

namespace terse::codec {

struct Golden {
  std::string name;               // KIND/NAME; the kind is encode, decode or refuse
  std::string about;              // one line, why this case is there
  std::string scheme;             // encode: as terseSchemeParse reads it, all keys given
  Dtype dtype = Dtype::kFloat32;  // of the elements
  uint64_t draw = 0;              // encode
  size_t count = 0;
  Bytes elements;  // encode: what is encoded, decode: what comes out
  Bytes packed;
  std::string message;  // refuse: part of the refusal's text

  std::string kind() const { return name.substr(0, name.find('/')); }
};

// What the files must say: the oracle's bytes.
std::vector<Golden> golden_cases();

// The text of a file, and back.
std::string print(const Golden& golden);
Golden parse_golden(const std::string& name, const std::string& text);

// The files of a kind, read from TERSE_TEST_DATA/codec; all, if the kind is empty.
std::vector<Golden> read_goldens(const std::string& directory, const std::string& kind);

// "int4:block=32,round=nearest,seed=7"
Spec parse_spec(const std::string& scheme, uint64_t* seed);

}  // namespace terse::codec

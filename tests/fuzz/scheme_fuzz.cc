// terseSchemeParse on arbitrary text: what it accepts prints to a text that parses back and prints
// the same; what it refuses it explains.
#include <cstdint>
#include <cstring>
#include <memory>

#include "expect.h"
#include "terse/terse.h"

namespace {

std::string printed(const terseScheme_t* scheme) {
  char text[128];
  expect(terseSchemePrint(scheme, text, sizeof text) == TERSE_SUCCESS, "128 characters hold it");
  const size_t length = std::strlen(text);

  // Exactly the room it needs, and one less.
  const std::unique_ptr<char[]> room(new char[length + 1]);
  expect(terseSchemePrint(scheme, room.get(), length + 1) == TERSE_SUCCESS, "room for the NUL");
  const std::unique_ptr<char[]> less(new char[length]);
  expect(terseSchemePrint(scheme, less.get(), length) == TERSE_INVALID_ARGUMENT, "no room");
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  terseScheme_t* scheme = nullptr;
  if (terseSchemeParse(text.c_str(), &scheme) != TERSE_SUCCESS) {
    expect(scheme == nullptr, "no scheme");
    expect(*terseGetLastError() != '\0', "a message");
    return 0;
  }
  const std::string once = printed(scheme);
  terseSchemeDestroy(scheme);
  expect(terseSchemeParse(once.c_str(), &scheme) == TERSE_SUCCESS, "its print is a scheme");
  expect(printed(scheme) == once, "the same print");
  terseSchemeDestroy(scheme);
  return 0;
}

// Our nccl.h against NCCL's own, and the library's symbols against nccl.h.
#include "abi.h"

#include <dlfcn.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <regex>
#include <set>
#include <sstream>

#include "reference.h"

namespace hostnccl_test {
namespace {

std::set<std::string> functions_of(const std::string& header) {
  std::ifstream file(header);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::regex declaration(R"((?:ncclResult_t|char\*|void)\s+(nccl[A-Z]\w*)\s*\()");
  std::set<std::string> names;
  for (std::sregex_iterator it(text.begin(), text.end(), declaration), end; it != end; ++it) {
    names.insert((*it)[1]);
  }
  return names;
}

// Those that the library has without doing anything.
const std::set<std::string> kUnsupported = {
#define HOSTNCCL_UNSUPPORTED(name, returns) "nccl" #name,
#include "unsupported.inc"
};

// The library's dynamic symbols as "T name", "W name", ...
std::set<std::string> exported_symbols() {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> nm(
      popen("nm -D --defined-only " HOSTNCCL_LIBRARY, "r"), &pclose);
  std::string text;
  for (char buffer[4096]; std::fgets(buffer, sizeof(buffer), nm.get()) != nullptr;) text += buffer;
  std::istringstream stream(text);
  std::set<std::string> names;
  for (std::string address, kind, name; stream >> address >> kind >> name;) {
    names.insert(kind + " " + name);
  }
  return names;
}

TEST(Abi, HeaderAgreesWithNccl) {
#ifdef HOSTNCCL_REAL_HEADER
  const AbiFacts real = real_abi();
  if (real.at("NCCL_VERSION_CODE") != our_abi().at("NCCL_VERSION_CODE")) {
    GTEST_SKIP() << "the nccl.h found is of version " << real.at("NCCL_VERSION_CODE");
  }
  EXPECT_EQ(our_abi(), real);
  EXPECT_EQ(functions_of(HOSTNCCL_OUR_HEADER), functions_of(HOSTNCCL_REAL_HEADER));
#else
  GTEST_SKIP() << "no nccl.h of NCCL's own was found at configure time";
#endif
}

TEST(Abi, LibraryExportsWhatTheHeaderDeclares) {
  void* library = dlopen(HOSTNCCL_LIBRARY, RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  // Whoever asks for NCCL by its SONAME from now on gets this one.
  EXPECT_EQ(library, dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD));
  std::set<std::string> functions = functions_of(HOSTNCCL_OUR_HEADER);
  EXPECT_EQ(functions.size(), 41u);
  functions.merge(functions_of(HOSTNCCL_CONFIG_HEADER));
  EXPECT_EQ(functions.size(), 49u);
  functions.insert(kUnsupported.begin(), kUnsupported.end());
  const std::set<std::string> exports = exported_symbols();
  std::set<std::string> expected;
  for (const std::string& name : functions) {
    EXPECT_EQ(dlsym(library, name.c_str()), dlsym(library, ("p" + name).c_str())) << name;
    EXPECT_NE(dlsym(library, name.c_str()), nullptr) << name;
    EXPECT_EQ(1u, exports.count("W " + name)) << name << " is not weak";
    EXPECT_EQ(1u, exports.count("T p" + name)) << "p" << name << " is not strong";
    expected.insert({"W " + name, "T p" + name});
  }
  for (const std::string& symbol : exports) {
    if (symbol.compare(2, 8, "hostnccl") == 0) continue;
    if (symbol.starts_with("T ucs_")) continue;  // called by UCX
    EXPECT_EQ(1u, expected.count(symbol)) << symbol;
  }
  dlclose(library);
}

// Programs that are linked to NCCL need each function that they are linked to, whatever they call:
// all that terse's list for its preload library has, and all that the nccl.h found has.
TEST(Abi, LibraryExportsAllThatNcclHas) {
  std::set<std::string> wanted = {
#define NCCL_FUNCTION(name, whose, returns) #name,
#include "functions.inc"
  };
  wanted.erase("ncclResetDebugInitInternal");  // NCCL's own
#ifdef HOSTNCCL_REAL_HEADER
  const std::set<std::string> real = functions_of(HOSTNCCL_REAL_HEADER);
  wanted.insert(real.begin(), real.end());
#endif
  const std::set<std::string> exports = exported_symbols();
  for (const std::string& name : wanted) EXPECT_EQ(1u, exports.count("W " + name)) << name;
}

TEST(Abi, WhatIsNotSupportedSaysSo) {
  void* library = dlopen(HOSTNCCL_LIBRARY, RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto function = reinterpret_cast<ncclResult_t (*)()>(dlsym(library, "ncclCommSuspend"));
  const auto text =
      reinterpret_cast<decltype(&ncclGetLastError)>(dlsym(library, "ncclGetLastError"));
  ASSERT_NE(function, nullptr);
  EXPECT_EQ(function(), ncclInvalidUsage);
  EXPECT_STREQ(text(nullptr), "ncclCommSuspend: not supported by hostnccl");
  dlclose(library);
}

}  // namespace
}  // namespace hostnccl_test

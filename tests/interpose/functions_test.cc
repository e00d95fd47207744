// Every function of functions.inc through the preload library to a recording NCCL, which the
// program is linked with, or opens and looks up: FAKE_NCCL is what it hands to dlopen.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "fake/fake_nccl.h"

namespace {

struct Function {
  const char* name;
  const char* whose;
  const char* returns;
};
constexpr Function kFunctions[] = {
#define NCCL_FUNCTION(name, whose, returns) {#name, #whose, #returns},
#include "interpose/functions.inc"
#undef NCCL_FUNCTION
};

// Words that a function of ours hands on, before and after the sixth; it knows its arguments, and
// so nothing else arrives.
struct Arguments {
  int first, further;
};
// An ncclUniqueId by value is 16 words on the stack of x86-64, and on 64-bit Arm the address of a
// copy, in the third word.
#if defined(__x86_64__)
constexpr bool kIdByAddress = false;
constexpr Arguments kInitRank{3, 16}, kInitRankConfig{4, 16};
#else
constexpr bool kIdByAddress = true;
constexpr Arguments kInitRank{4, 0}, kInitRankConfig{5, 0};
#endif
constexpr int kIdWord = 2;
const std::map<std::string, Arguments> kArguments = {
    {"ncclCommInitRank", kInitRank},
    {"ncclCommInitRankConfig", kInitRankConfig},
    {"ncclCommInitAll", {3, 0}},
    {"ncclCommInitRankScalable", {6, 0}},
    {"ncclCommDestroy", {1, 0}},
    {"ncclCommAbort", {1, 0}},
    {"ncclCommFinalize", {1, 0}},
    {"ncclCommRevoke", {2, 0}},
    {"ncclCommGetAsyncError", {2, 0}},
    {"ncclCommSplit", {5, 0}},
    {"ncclCommShrink", {6, 0}},
    {"ncclCommGrow", {6, 0}},
    {"ncclGetLastError", {1, 0}},
    {"ncclGroupStart", {0, 0}},
    {"ncclGroupEnd", {0, 0}},
    {"ncclGroupSimulateEnd", {1, 0}},
    {"ncclAllReduce", {6, 1}},
    {"ncclAllGather", {6, 0}},
    {"ncclReduceScatter", {6, 1}},
    {"ncclReduce", {6, 2}},
    {"ncclBroadcast", {6, 1}},
    {"ncclBcast", {6, 0}},
    {"ncclAlltoAll", {6, 0}},
    {"ncclGather", {6, 1}},
    {"ncclScatter", {6, 1}},
    {"ncclSend", {6, 0}},
    {"ncclRecv", {6, 0}},
    {"ncclAllReduceConfig", {6, 2}},
    {"ncclAllGatherConfig", {6, 1}},
    {"ncclReduceScatterConfig", {6, 2}},
    {"ncclReduceConfig", {6, 3}},
    {"ncclBroadcastConfig", {6, 2}},
    {"ncclAlltoAllConfig", {6, 1}},
    {"ncclGatherConfig", {6, 2}},
    {"ncclScatterConfig", {6, 2}},
    {"ncclRedOpCreatePreMulSum", {5, 0}},
    {"ncclRedOpDestroy", {2, 0}},
};

// A structure of 12 bytes comes back in two registers; the longest that NCCL returns by value.
struct Pair {
  uint64_t first, second;
};
template <class Result>
using Any = Result (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, double, double,
                       double, double, double, double, double, double, uint64_t, uint64_t, uint64_t,
                       uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                       uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                       uint64_t);

template <class Result>
Result call(void* function, const uint64_t (&w)[kFakeWords], const double (&n)[8]) {
  return reinterpret_cast<Any<Result>>(function)(
      w[0], w[1], w[2], w[3], w[4], w[5], n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], w[6],
      w[7], w[8], w[9], w[10], w[11], w[12], w[13], w[14], w[15], w[16], w[17], w[18], w[19], w[20],
      w[21], w[22], w[23]);
}

void* nccl_handle() {
  const char* path = std::getenv("FAKE_NCCL");
  if (path == nullptr || *path == '\0') return RTLD_DEFAULT;  // linked
  static void* const handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) ADD_FAILURE() << dlerror();
  return handle;
}

void* find(const std::string& name) {
  void* function = dlsym(nccl_handle(), name.c_str());
  EXPECT_NE(function, nullptr) << name;
  return function;
}

// Past the preload library, as a client whose dlsym is libc's.
void* find_unhooked(const char* name) {
  using Dlsym = void* (*)(void*, const char*);
  for (const char* version : {"GLIBC_2.2.5", "GLIBC_2.17"})
    if (void* libc = dlvsym(RTLD_DEFAULT, "dlsym", version)) {
      void* any = find("fakeForget");
      Dl_info info{};
      dladdr(any, &info);
      void* fake = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
      return reinterpret_cast<Dlsym>(libc)(fake, name);
    }
  return nullptr;
}

std::filesystem::path path_of(void* function) {
  Dl_info info{};
  dladdr(function, &info);
  return info.dli_fname;
}

std::string file_of(void* function) { return path_of(function).filename(); }

std::vector<FakeCall> calls() {
  int count = 0;
  const FakeCall* first = reinterpret_cast<decltype(&fakeCalls)>(find("fakeCalls"))(&count);
  return {first, first + count};
}

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (const FakeCall& c : calls()) result.push_back(c.name);
  return result;
}

void forget() { reinterpret_cast<decltype(&fakeForget)>(find("fakeForget"))(); }

// Whether the function reads the configuration, the last of its arguments, which then is null: no
// other argument is looked into.
bool reads_config(const Function& f) {
  const auto known = kArguments.find(f.name);
  return known != kArguments.end() && known->second.further != 0 &&
         std::string_view(f.name).ends_with("Config") &&
         !std::string_view(f.name).starts_with("ncclComm");
}

bool has_id_address(const Function& f) {
  const std::string_view name = f.name;
  return kIdByAddress && (name == "ncclCommInitRank" || name == "ncclCommInitRankConfig");
}

// Arguments unlike any others, that fit the narrowest parameter there is.
void fill(const Function& f, int seed, uint64_t (&words)[kFakeWords], double (&numbers)[8]) {
  for (int i = 0; i < kFakeWords; ++i) words[i] = 0x100000 + seed * 64 + i;
  if (reads_config(f)) words[6 + kArguments.at(f.name).further - 1] = 0;
  static const char id[128] = {};
  if (has_id_address(f)) words[kIdWord] = reinterpret_cast<uint64_t>(id);
  for (int i = 0; i < 8; ++i) numbers[i] = seed + i / 8.0;
}

void expect_words(const FakeCall& got, const uint64_t (&sent)[kFakeWords], int begin, int count) {
  for (int i = begin; i < begin + count; ++i) {
    // A narrow parameter leaves the upper half of its word to chance.
    EXPECT_EQ(static_cast<uint32_t>(got.words[i]), sent[i]) << got.name << ", word " << i;
  }
}

void expect_arrived(const Function& f, const std::string& name, const FakeCall& got,
                    const uint64_t (&words)[kFakeWords], const double (&numbers)[8]) {
  EXPECT_STREQ(got.name, f.name);
  if (name[0] == 'p' || std::strcmp(f.whose, "ours") != 0) {
    EXPECT_EQ(0, std::memcmp(got.words, words, sizeof words)) << name;
    EXPECT_EQ(0, std::memcmp(got.numbers, numbers, sizeof numbers)) << name;
    return;
  }
  const auto known = kArguments.find(f.name);
  ASSERT_NE(known, kArguments.end()) << f.name << " is ours: say here what its arguments are";
  const int before_id = has_id_address(f) ? kIdWord : 0;
  const int after_id = has_id_address(f) ? kIdWord + 1 : 0;
  expect_words(got, words, 0, before_id);
  expect_words(got, words, after_id, known->second.first - after_id);
  expect_words(got, words, 6, known->second.further);
}

void expect_result(const Function& f, const Pair& result) {
  const std::string returns = f.returns;
  if (returns == "result") {
    EXPECT_EQ(static_cast<int>(result.first), 0) << f.name;
  } else if (returns == "text") {
    EXPECT_STREQ(reinterpret_cast<const char*>(result.first), "the fake's text") << f.name;
  } else if (returns == "number") {
    EXPECT_EQ(result.first, 8 | uint64_t{5} << 32) << f.name;
    EXPECT_EQ(static_cast<int>(result.second), 3) << f.name;
  }
}

void expect_each_arrives(const std::string& prefix) {
  int seed = 0;
  for (const Function& f : kFunctions) {
    if (prefix == "p" && std::strcmp(f.whose, "inner") == 0) continue;
    const std::string name = prefix + f.name;
    uint64_t words[kFakeWords];
    double numbers[8];
    fill(f, ++seed, words, numbers);
    void* function = find(name);
    ASSERT_NE(function, nullptr);
    forget();
    const Pair result = call<Pair>(function, words, numbers);
    const std::vector<FakeCall> arrived = calls();
    ASSERT_EQ(arrived.size(), 1u) << name << " arrived as " << testing::PrintToString(names());
    expect_arrived(f, name, arrived[0], words, numbers);
    expect_result(f, result);
  }
}

TEST(Functions, EachArrivesOnceWithItsArguments) { expect_each_arrives(""); }

TEST(Functions, EachArrivesByItsOtherName) { expect_each_arrives("p"); }

TEST(Functions, AllArriveInTheirOrder) {
  struct Sent {
    const Function& function;
    uint64_t words[kFakeWords];
    double numbers[8];
  };
  std::mt19937 random(11);
  std::deque<Sent> sent;
  forget();
  for (int seed = 0; seed < 1000; ++seed) {
    Sent& next = sent.emplace_back(Sent{kFunctions[random() % std::size(kFunctions)], {}, {}});
    fill(next.function, seed, next.words, next.numbers);
    call<Pair>(find(next.function.name), next.words, next.numbers);
  }
  const std::vector<FakeCall> arrived = calls();
  ASSERT_EQ(arrived.size(), sent.size());
  for (size_t i = 0; i < sent.size(); ++i) {
    SCOPED_TRACE("call " + std::to_string(i));
    const Sent& s = sent[i];
    expect_arrived(s.function, s.function.name, arrived[i], s.words, s.numbers);
    ASSERT_FALSE(HasFailure());
  }
}

TEST(Functions, OursAreFoundByEveryClient) {
  for (const Function& f : kFunctions) {
    if (std::strcmp(f.whose, "ours") != 0) continue;
    EXPECT_EQ(file_of(find(f.name)), "libterse_nccl.so") << f.name;
  }
  EXPECT_EQ(file_of(find("fakeCalls")), "libnccl.so.2");
}

// Handles of one NCCL must not come to another: a second one is left alone, unless TERSE_NCCL says
// which of them serves all (old_nccl_test.cc).
TEST(Functions, ASecondNcclIsLeftAlone) {
  if (const char* set = std::getenv("TERSE_NCCL"); set != nullptr && *set != '\0')
    GTEST_SKIP() << "TERSE_NCCL is set";
  void* send = find("ncclSend");
  void* second = dlopen(std::getenv("SECOND_NCCL"), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(second, nullptr) << dlerror();
  void* all_reduce = dlsym(second, "ncclAllReduce");
  EXPECT_EQ(file_of(all_reduce), "libnccl.so.2");
  EXPECT_NE(all_reduce, find("ncclAllReduce"));
  EXPECT_NE(dlsym(second, "ncclSend"), send);
  dlclose(second);
}

// By another library than the preload one: with dlsym's other callers nothing has changed.
TEST(Functions, DlsymIsLibcsForAllElse) {
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "no_such_symbol"), nullptr);
  EXPECT_NE(std::string(dlerror()).find("no_such_symbol"), std::string::npos);
  EXPECT_EQ(dlsym(nccl_handle(), "ncclNoSuchFunction"), nullptr);
  EXPECT_NE(std::string(dlerror()).find("ncclNoSuchFunction"), std::string::npos);
  // "After this program" is libc, whoever else has the name.
  EXPECT_NE(file_of(dlsym(RTLD_NEXT, "getenv")), "libterse_nccl.so");
  EXPECT_EQ(dlsym(RTLD_NEXT, "main"), nullptr);
}

TEST(Functions, DlopenIsLibcsButForAWarning) {
  if (dlsym(RTLD_DEFAULT, "__asan_init") != nullptr)
    GTEST_SKIP() << "sanitizers cannot live with RTLD_DEEPBIND";
  const std::string own_folder = "$ORIGIN/interpose_linked";  // of the caller, who is in it
  const struct {
    const char *file, *error;
  } cases[] = {{"/no/such.so", "/no/such.so: cannot open"},
               {"no_such.so", "no_such.so: cannot open"},
               {own_folder.c_str(), "executable"}};
  for (const auto& c : cases)
    for (const int mode : {RTLD_NOW, RTLD_NOW | RTLD_DEEPBIND}) {
      EXPECT_EQ(dlopen(c.file, mode), nullptr);
      EXPECT_NE(std::string(dlerror()).find(c.error), std::string::npos) << c.file;
    }
  EXPECT_EQ(dlopen(nullptr, RTLD_NOW | RTLD_DEEPBIND), dlopen(nullptr, RTLD_NOW));
  const std::filesystem::path libc = path_of(dlsym(RTLD_DEFAULT, "getenv"));
  EXPECT_NE(dlopen(libc.c_str(), RTLD_NOW | RTLD_DEEPBIND), nullptr);
  EXPECT_EQ(dlerror(), nullptr);
}

// The dlsym of a library that is preloaded after ours goes on doing its work.
TEST(OtherDlsym, IsNotBypassed) {
  EXPECT_NE(dlsym(RTLD_DEFAULT, "other_dlsym_probe"), nullptr);
  EXPECT_NE(dlsym(nccl_handle(), "ncclSend"), nullptr);
  EXPECT_EQ(file_of(find("ncclAllReduce")), "libterse_nccl.so");
}

// NCCL's calls of its own exports do not come back to us. With TERSE_SCHEME set an AllReduce that
// did would ask NCCL for the communicator's size.
class Reentry : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(std::getenv("TERSE_SCHEME"), nullptr) << "run this by ctest"; }

  void expect_inner_calls_stay(void* outer, const char* name) {
    const auto nest = reinterpret_cast<decltype(&fakeNest)>(find("fakeNest"));
    const uint64_t words[kFakeWords] = {};
    forget();
    nest(name, 2);
    EXPECT_EQ(call<uint64_t>(outer, words, {}), 0u);
    EXPECT_EQ(names(), (std::vector<std::string>{name, "ncclGroupStart", "ncclAllReduce",
                                                 "ncclGroupEnd", "ncclCommInitRank"}));
    forget();
    nest(name, 1);
    call<uint64_t>(outer, words, {});
    EXPECT_EQ(names(), (std::vector<std::string>{name, "ncclBroadcast"}));
    const uint64_t sent[kFakeWords] = {11, 11, 12, 13, 14, 15, 16};
    expect_words(calls().back(), sent, 0, 7);
  }
};

TEST_F(Reentry, BeforeAnyCallOfTheProgram) {
  expect_inner_calls_stay(find_unhooked("ncclGetVersion"), "ncclGetVersion");
}

TEST_F(Reentry, InACallThatIsHandedOn) {
  expect_inner_calls_stay(find("ncclGetVersion"), "ncclGetVersion");
  expect_inner_calls_stay(find("ncclCommRegister"), "ncclCommRegister");
}

TEST_F(Reentry, InACallOfOurs) {
  expect_inner_calls_stay(find("ncclCommFinalize"), "ncclCommFinalize");
  expect_inner_calls_stay(find("ncclCommDestroy"), "ncclCommDestroy");
  expect_inner_calls_stay(find("ncclGroupStart"), "ncclGroupStart");
  const uint64_t none[kFakeWords] = {};
  EXPECT_EQ(call<uint64_t>(find("ncclGroupEnd"), none, {}), 0u);
}

}  // namespace

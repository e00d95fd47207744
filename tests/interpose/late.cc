// Calls that fail when main() is over, as those of a program's exit handlers, or of its static
// objects, may. The NCCL is fake/old_nccl.c, named by TERSE_NCCL.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

template <class Function>
Function preloaded(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

void must(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "not so: %s\n", what);
  _exit(1);
}

// By functions that this NCCL lacks, whose names differ in length, and so do the messages.
void fail_and_ask() {
  using Function = int (*)(long, long, long, long, long, long);
  constexpr int kInvalidUsage = 5;
  for (const char* name : {"ncclCommShrink", "ncclCommWindowRegister", "ncclCommGrow"}) {
    must(preloaded<Function>(name)(0, 0, 0, 0, 0, 0) == kInvalidUsage, "invalid usage");
    const std::string said = preloaded<const char* (*)(void*)>("ncclGetLastError")(nullptr);
    must(said.find(std::string(name) + ": the NCCL in use") != std::string::npos, said.c_str());
  }
  for (const char* name : {"ncclGroupStart", "ncclGroupEnd"})
    must(preloaded<int (*)()>(name)() == 0, name);
}

struct Late {
  ~Late() { fail_and_ask(); }
} g_late;

}  // namespace

int main() {
  must(std::atexit(fail_and_ask) == 0, "a handler");
  fail_and_ask();
}

// A program that does to its environment what programs do, while the preload library is loaded:
//
//     environment cleared|absent|changing
#include <dlfcn.h>
#include <nccl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

namespace {

void must(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "not so: %s: %s\n", what, ncclGetLastError(nullptr));
  _exit(1);
}

// One thread sets variables, by which the environment moves, as long as another opens libraries and
// looks symbols up.
void change() {
  std::atomic<bool> done{false};
  std::atomic<int> rounds{0};
  std::thread setter([&] {
    for (int i = 0; !done; ++i, ++rounds)
      setenv(("VARIABLE_" + std::to_string(i % 5000)).c_str(), std::to_string(i).c_str(), 1);
  });
  static constexpr const char* kLibraries[] = {"libc.so.6", "libm.so.6", "libdl.so.2",
                                               "libstdc++.so.6", "libnccl.so.2"};
  while (rounds == 0) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) {
    void* const library = dlopen(kLibraries[i % 5], RTLD_NOW | RTLD_LOCAL);
    must(library != nullptr, kLibraries[i % 5]);
    for (int k = 0; k < 100; ++k) {
      dlsym(library, ("symbol_" + std::to_string(k)).c_str());
      dlsym(RTLD_DEFAULT, "malloc");
      dlsym(RTLD_NEXT, "ncclGetVersion");
    }
    dlclose(library);
  }
  done = true;
  setter.join();
}

void use_nccl() {
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  float x[2] = {1, 2}, y[2] = {};
  must(ncclGetUniqueId(&id) == ncclSuccess, "an id");
  must(ncclCommInitRank(&comm, 1, id, 0) == ncclSuccess, "a communicator");
  must(ncclAllReduce(x, y, 2, ncclFloat32, ncclSum, comm, nullptr) == ncclSuccess, "a call");
  must(y[0] == 1 && y[1] == 2, "its result");
  must(ncclCommDestroy(comm) == ncclSuccess, "the end");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view way = argc > 1 ? argv[1] : "";
  if (way == "cleared") must(clearenv() == 0, "no environment");
  if (way == "absent") environ = nullptr;
  if (way == "changing") change();
  use_nccl();
  std::puts("done");
}

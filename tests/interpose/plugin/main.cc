// A program that knows no NCCL and opens a plugin that does: main.cc PLUGIN deep|plain, and
// rank.cc's arguments. `deep`: with RTLD_DEEPBIND.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const int mode = RTLD_NOW | (std::strcmp(argv[2], "deep") == 0 ? RTLD_DEEPBIND : 0);
  void* plugin = nullptr;
  for (int time = 0; time < 2; ++time) plugin = dlopen(argv[1], mode);
  if (plugin == nullptr) {
    std::puts(dlerror());
    return 1;
  }
  const auto run = reinterpret_cast<int (*)(int, char**)>(dlsym(plugin, "run_plugin"));
  return run(argc - 2, argv + 2);
}

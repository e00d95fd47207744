// A library with threads and exceptions of its own, which end in it.
#include <dlfcn.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <thread>

extern "C" const char* caught() {
  static std::string message;
  std::thread([] {
    try {
      throw std::runtime_error("caught");
    } catch (const std::exception& e) {
      message = e.what();
    }
  }).join();
  return dlsym(RTLD_DEFAULT, "caught") != nullptr ? message.c_str() : "";
}

#if NEW_FUNCTION
extern "C" int newer(int epoll, epoll_event* event) {
  return epoll_pwait2(epoll, event, 1, nullptr, nullptr);  // of glibc 2.35
}
#endif

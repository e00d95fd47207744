/* Another preloaded library with a dlsym of its own, as tools for CUDA have one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

/* Not libc's: a sanitizer may have replaced that, and not be ready. */
static int equal(const char* a, const char* b) {
  while (*a != '\0' && *a == *b) ++a, ++b;
  return *a == *b;
}

int other_dlsym_was_here = 1;

__attribute__((visibility("default"))) void* dlsym(void* handle, const char* name) {
  if (equal(name, "other_dlsym_probe")) return &other_dlsym_was_here;
  void* (*libc)(void*, const char*) =
      (void* (*)(void*, const char*))dlvsym(RTLD_DEFAULT, "dlsym", "GLIBC_2.2.5");
  if (libc == NULL)
    libc = (void* (*)(void*, const char*))dlvsym(RTLD_DEFAULT, "dlsym", "GLIBC_2.17");
  return libc(handle, name);
}

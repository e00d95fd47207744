/* A system that makes no files in memory, for tests of ranks without windows. */
#include <errno.h>

__attribute__((visibility("default"))) int memfd_create(const char* name, unsigned flags) {
  (void)name;
  (void)flags;
  errno = ENOSYS;
  return -1;
}

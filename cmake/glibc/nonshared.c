// What newer glibcs have, and the compiler and its library take for granted: as in glibc's own
// libc_nonshared.a, everything that is linked gets what it needs of it.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// 2.33: functions; before, the version of the structure was an argument.
enum { kStructure = 1 };
extern int __fxstat(int, int, struct stat*);
extern int __xstat(int, const char*, struct stat*);
extern int __lxstat(int, const char*, struct stat*);
extern int __fxstatat(int, int, const char*, struct stat*, int);

int stat(const char* path, struct stat* found) { return __xstat(kStructure, path, found); }
int lstat(const char* path, struct stat* found) { return __lxstat(kStructure, path, found); }
int fstat(int file, struct stat* found) { return __fxstat(kStructure, file, found); }
int fstatat(int folder, const char* path, struct stat* found, int flags) {
  return __fxstatat(kStructure, folder, path, found, flags);
}
int fstat64(int file, struct stat64* found) __attribute__((alias("fstat")));

// 2.32: false is always right.
char __libc_single_threaded = 0;

// 2.30
pid_t gettid(void) { return (pid_t)syscall(SYS_gettid); }

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* until) {
  struct timespec now, wall;
  if (clock == CLOCK_REALTIME) return pthread_cond_timedwait(condition, mutex, until);
  if (clock_gettime(clock, &now) != 0 || clock_gettime(CLOCK_REALTIME, &wall) != 0) return EINVAL;
  wall.tv_sec += until->tv_sec - now.tv_sec;
  wall.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (wall.tv_nsec < 0) wall.tv_nsec += 1000000000, --wall.tv_sec;
  if (wall.tv_nsec >= 1000000000) wall.tv_nsec -= 1000000000, ++wall.tv_sec;
  return pthread_cond_timedwait(condition, mutex, &wall);
}

// 2.36. Of so few bytes there are never less, once the kernel has any.
uint32_t arc4random(void) {
  uint32_t random;
  while (getrandom(&random, sizeof random, 0) != sizeof random) {
  }
  return random;
}

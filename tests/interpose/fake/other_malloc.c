/* A program's own malloc, as jemalloc is: libc's free aborts at what comes from it. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

void* __libc_malloc(size_t bytes);
void __libc_free(void* memory);

/* In front of what is given out. */
struct Head {
  void* taken;
  size_t bytes;
};
enum { kAlignment = 64 };

static struct Head* head_of(void* memory) { return (struct Head*)memory - 1; }

void* memalign(size_t alignment, size_t bytes) {
  if (alignment < kAlignment) alignment = kAlignment;
  char* const taken = __libc_malloc(bytes + 2 * alignment);
  if (taken == NULL) return NULL;
  void* const memory = (void*)(((uintptr_t)taken + 2 * alignment - 1) & ~(alignment - 1));
  *head_of(memory) = (struct Head){taken, bytes};
  return memory;
}

void* malloc(size_t bytes) { return memalign(kAlignment, bytes); }
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
void* valloc(size_t bytes) { return memalign(4096, bytes); }

int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  *memory = memalign(alignment, bytes);
  return *memory == NULL ? ENOMEM : 0;
}

void free(void* memory) {
  if (memory != NULL) __libc_free(head_of(memory)->taken);
}

void* calloc(size_t n, size_t bytes) {
  size_t all;
  if (__builtin_mul_overflow(n, bytes, &all)) return NULL;
  void* const memory = malloc(all);
  return memory == NULL ? NULL : memset(memory, 0, all);
}

void* realloc(void* memory, size_t bytes) {
  void* const larger = malloc(bytes);
  if (memory == NULL || larger == NULL) return larger;
  const size_t before = head_of(memory)->bytes;
  memcpy(larger, memory, before < bytes ? before : bytes);
  free(memory);
  return larger;
}

size_t malloc_usable_size(void* memory) { return memory == NULL ? 0 : head_of(memory)->bytes; }

// glibc 2.34 and newer run the constructors of a program. Before, the program brought the function
// that does, and a newer glibc still calls one that is handed to it.
#include <stddef.h>

typedef int Main(int, char**, char**);
typedef void Constructor(int, char**, char**);
typedef void Handler(void);

extern int start_of_old(Main*, int, char**, Constructor*, Handler*, Handler*, void*);
__asm__(".symver start_of_old, __libc_start_main@GLIBC_2.2.5");
extern Constructor *__preinit_array_start[], *__preinit_array_end[];
extern Constructor *__init_array_start[], *__init_array_end[];
extern void _init(void) __attribute__((weak));

static void construct(int argc, char** argv, char** environment) {
  for (Constructor** each = __preinit_array_start; each != __preinit_array_end; ++each)
    (*each)(argc, argv, environment);
  if (_init) _init();
  for (Constructor** each = __init_array_start; each != __init_array_end; ++each)
    (*each)(argc, argv, environment);
}

int __libc_start_main(Main* program, int argc, char** argv, Constructor* none, Handler* also_none,
                      Handler* loader_end, void* stack_end) {
  (void)none, (void)also_none;
  return start_of_old(program, argc, argv, construct, NULL, loader_end, stack_end);
}

#define _GNU_SOURCE
#include <pthread.h>

/* Threads get as much stack as the limit of the host says, which on some is a gigabyte: the address space of a worker
   would not hold a handful of them. This runs before the Go runtime starts its own. */
__attribute__((constructor)) static void bound_stacks(void) {
  const size_t most = 8 << 20;
  pthread_attr_t a;
  size_t now;
  if (pthread_getattr_default_np(&a) != 0) return;
  if (pthread_attr_getstacksize(&a, &now) == 0 && now > most && pthread_attr_setstacksize(&a, most) == 0) pthread_setattr_default_np(&a);
  pthread_attr_destroy(&a);
}

/* on_gc.h: what on_gc.c and gc_operations.c, the fuzzed sequences on gc.h, share. */
#ifndef ON_GC_H
#define ON_GC_H
#include <stdint.h>

/* What the function of toggle references answers, by object: 2 strong, 1 weak, 0 drop it. */
enum { TOGGLES = 1 << 20 };
extern unsigned char toggles[TOGGLES];
void set_toggle(unsigned mode, uint32_t id);
/* Whether the debugging allocator made it. */
int is_debug(unsigned shape);
/* The kind with a mark procedure. */
extern int procedure_kind;
#endif

/* The collector's interface by its short name; gc/gc.h has it. */
#include "gc/gc.h"

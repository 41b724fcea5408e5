/* The interface for C++ by its short name; gc/gc_cpp.h has it. */
#include "gc/gc_cpp.h"

/* Every header of libgc's interface, for the comparisons of headers.sh. */
#define GC_THREADS
#define GC_REQUIRE_WCSDUP
#include <wchar.h>
#include <gc/gc.h>
#include <gc/gc_backptr.h>
#include <gc/gc_disclaim.h>
#include <gc/gc_gcj.h>
#include <gc/gc_inline.h>
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>
#include <gc/javaxfc.h>
#include <gc/cord.h>
#include <gc/ec.h>

/* The library that loaded.c and static_roots.c open: its data keeps objects alive. */
static char *table[100];
char **plugin_slots = table;

/* The library that loaded.c opens: its data keeps objects alive. */
static char *table[100];
char **plugin_slots = table;

/* What an out-of-memory function gives in place of an object that no memory is there for, and
   whether it is still as it was. */
#ifndef SUBSTITUTE_H
#define SUBSTITUTE_H

static char substitute[64];
static void *give_substitute(size_t bytes)
{
    return bytes > sizeof substitute ? substitute : NULL;
}

static int all_are(const char *bytes, size_t count, char value)
{
    for (size_t index = 0; index < count; index++)
        if (bytes[index] != value)
            return 0;
    return 1;
}

#endif

/* pattern.h: reads a file of allocation patterns, and divides a program's bins into what is scanned
 * and what is not.
 *
 * The file is JSON; of it objects, numbers and strings are read, and only the members named here.
 * What is wrong with a file is said with the place, and ends the program. Invariant of a division:
 * the objects and bytes of what is scanned add up to what the file says, and in each bin both parts
 * can be made of sizes of that bin; its pages are divided so that objects which fill theirs but for
 * less than a page can add up to each part. Used by replay.c, main thread. */
#ifndef NEAP_PATTERN_H
#define NEAP_PATTERN_H

#include "../programs/bench.h"

enum { PATTERN_PROGRAMS = 16, PATTERN_BINS = 16, PATTERN_PAGE = 4096, PATTERN_LARGEST = 1 << 30 };

struct pattern_amount {
    uint64_t objects, bytes;
};

struct pattern_bin {
    uint64_t low, high; /* sizes that belong into it */
    struct pattern_amount amount;
};

struct pattern_program {
    char name[32];
    struct pattern_amount requested, scanned;
    uint64_t different_sizes;
    uint64_t conservative_wasted, precise_wasted; /* bytes, as measured when the pattern was */
    /* that the objects of the bin of pages took then; 0 if the file does not tell */
    uint64_t pages;
    int bins;
    struct pattern_bin bin[PATTERN_BINS];
};

struct pattern_reader {
    const char *file, *text, *at;
};

static inline _Noreturn void pattern_refuse(const struct pattern_reader *reader, const char *wanted)
{
    fprintf(stderr, "%s: byte %td: want %s\n", reader->file, reader->at - reader->text, wanted);
    exit(2);
}

static inline void pattern_space(struct pattern_reader *reader)
{
    while (*reader->at != '\0' && strchr(" \t\r\n", *reader->at) != NULL)
        reader->at++;
}

static inline bool pattern_take(struct pattern_reader *reader, char sign)
{
    pattern_space(reader);
    if (*reader->at != sign)
        return false;
    reader->at++;
    return true;
}

static inline void pattern_text(struct pattern_reader *reader, char *out, size_t room)
{
    if (!pattern_take(reader, '"'))
        pattern_refuse(reader, "a string");
    size_t length = 0;
    for (; *reader->at != '"'; reader->at++) {
        if (*reader->at == '\0')
            pattern_refuse(reader, "the end of a string");
        if (length + 1 < room)
            out[length++] = *reader->at;
    }
    out[length] = '\0';
    reader->at++;
}

static inline uint64_t pattern_number(struct pattern_reader *reader)
{
    pattern_space(reader);
    char *end;
    double value = strtod(reader->at, &end);
    if (end == reader->at || value < 0)
        pattern_refuse(reader, "a number that is not negative");
    reader->at = end;
    return (uint64_t)value;
}

static inline void pattern_skip(struct pattern_reader *reader)
{
    char ignored[2];
    pattern_space(reader);
    if (*reader->at == '"') {
        pattern_text(reader, ignored, sizeof ignored);
    } else if (pattern_take(reader, '{')) {
        while (!pattern_take(reader, '}')) {
            pattern_text(reader, ignored, sizeof ignored);
            if (!pattern_take(reader, ':'))
                pattern_refuse(reader, "a colon");
            pattern_skip(reader);
            pattern_take(reader, ',');
        }
    } else if (pattern_take(reader, '[')) {
        while (!pattern_take(reader, ']')) {
            pattern_skip(reader);
            pattern_take(reader, ',');
        }
    } else {
        pattern_number(reader);
    }
}

/* The next member of the object that is being read: its name, or false at the object's end. The
   opening brace is taken with the first. */
static inline bool pattern_member(struct pattern_reader *reader, bool *first, char name[32])
{
    if (*first && !pattern_take(reader, '{'))
        pattern_refuse(reader, "an object");
    if (!*first && !pattern_take(reader, ',')) {
        if (!pattern_take(reader, '}'))
            pattern_refuse(reader, "a comma or a closing brace");
        return false;
    }
    if (*first && pattern_take(reader, '}'))
        return false;
    *first = false;
    pattern_text(reader, name, 32);
    if (!pattern_take(reader, ':'))
        pattern_refuse(reader, "a colon");
    return true;
}

/* {"objects": N, "bytes": N, …}; a bin also says which it is. */
static inline struct pattern_amount pattern_amount_of(struct pattern_reader *reader, uint64_t *bin)
{
    struct pattern_amount amount = {0, 0};
    char name[32];
    for (bool first = true; pattern_member(reader, &first, name);) {
        pattern_space(reader);
        if (strcmp(name, "objects") == 0)
            amount.objects = pattern_number(reader);
        else if (strcmp(name, "bytes") == 0)
            amount.bytes = pattern_number(reader);
        else if (bin != NULL && strcmp(name, "bin") == 0 && *reader->at != '"')
            *bin = pattern_number(reader);
        else
            pattern_skip(reader);
    }
    return amount;
}

static inline void pattern_bins(struct pattern_reader *reader, struct pattern_program *program)
{
    if (!pattern_take(reader, '['))
        pattern_refuse(reader, "a list of bins");
    for (bool first = true; first || pattern_take(reader, ','); first = false) {
        if (program->bins == PATTERN_BINS)
            pattern_refuse(reader, "fewer bins");
        struct pattern_bin *bin = &program->bin[program->bins++];
        uint64_t largest = 0;
        bin->amount = pattern_amount_of(reader, &largest);
        /* A bin of 16 holds requests of 1 to 16 bytes, one of 32 those of 17 to 32; the bin of
           pages all that are larger. */
        bin->low = largest == 0 ? PATTERN_PAGE + 1 : largest <= 16 ? 1 : largest / 2 + 1;
        bin->high = largest == 0 ? PATTERN_LARGEST : largest;
        uint64_t mean_most = bin->amount.objects == 0 ? 0
            : (bin->amount.bytes + bin->amount.objects - 1) / bin->amount.objects;
        if (bin->amount.objects == 0 || bin->amount.bytes < bin->low * bin->amount.objects ||
            mean_most > bin->high)
            pattern_refuse(reader, "a bin whose bytes can be made of objects of its size");
    }
    if (!pattern_take(reader, ']'))
        pattern_refuse(reader, "the end of the list of bins");
}

static inline void pattern_one(struct pattern_reader *reader, struct pattern_program *program)
{
    char name[32], inner[32];
    for (bool first = true; pattern_member(reader, &first, name);) {
        uint64_t *wasted = strcmp(name, "conservative") == 0 ? &program->conservative_wasted
                           : strcmp(name, "precise") == 0    ? &program->precise_wasted
                                                             : NULL;
        if (wasted == NULL && strcmp(name, "requested") != 0) {
            pattern_skip(reader);
            continue;
        }
        for (bool first_inner = true; pattern_member(reader, &first_inner, inner);) {
            if (wasted != NULL && strcmp(inner, "wasted") == 0)
                *wasted = pattern_number(reader);
            else if (wasted != NULL)
                pattern_skip(reader);
            else if (strcmp(inner, "objects") == 0)
                program->requested.objects = pattern_number(reader);
            else if (strcmp(inner, "bytes") == 0)
                program->requested.bytes = pattern_number(reader);
            else if (strcmp(inner, "scanned") == 0)
                program->scanned = pattern_amount_of(reader, NULL);
            else if (strcmp(inner, "different_sizes") == 0)
                program->different_sizes = pattern_number(reader);
            else if (strcmp(inner, "bins") == 0)
                pattern_bins(reader, program);
            else
                pattern_skip(reader);
        }
    }
}

/* The pages that a program's large objects took when the pattern was measured: what the small bins
   wasted is known, and the rest of the waste was the unused ends of last pages. */
static inline uint64_t pattern_pages(const struct pattern_program *program)
{
    struct pattern_amount large = {0, 0};
    uint64_t small_wasted = 0;
    for (int i = 0; i < program->bins; i++) {
        const struct pattern_bin *bin = &program->bin[i];
        if (bin->low > PATTERN_PAGE)
            large = bin->amount;
        else
            small_wasted += bin->high * bin->amount.objects - bin->amount.bytes;
    }
    if (large.objects == 0 || program->conservative_wasted < small_wasted)
        return 0;
    uint64_t pages = (large.bytes + program->conservative_wasted - small_wasted) / PATTERN_PAGE;
    bool can_be = pages * PATTERN_PAGE >= large.bytes &&
        pages * PATTERN_PAGE - large.bytes <= large.objects * (PATTERN_PAGE - 1);
    return can_be ? pages : 0;
}

/* Of the pages of a bin those of one part of its objects, the other being the rest: about as much
   unused for each object in both. */
static inline uint64_t pattern_divide_pages(uint64_t pages, struct pattern_amount part,
    struct pattern_amount rest)
{
    uint64_t unused = pages * PATTERN_PAGE - part.bytes - rest.bytes;
    uint64_t wanted = (part.bytes + unused / (part.objects
        + rest.objects) * part.objects) / PATTERN_PAGE;
    uint64_t least = (part.bytes + PATTERN_PAGE - 1) / PATTERN_PAGE,
        most = (part.bytes + part.objects * (PATTERN_PAGE - 1)) / PATTERN_PAGE;
    uint64_t rest_least = (rest.bytes + PATTERN_PAGE - 1) / PATTERN_PAGE,
        rest_most = (rest.bytes + rest.objects * (PATTERN_PAGE - 1)) / PATTERN_PAGE;
    least = pages > rest_most && pages - rest_most > least ? pages - rest_most : least;
    most = pages - rest_least < most ? pages - rest_least : most;
    return wanted < least ? least : wanted > most ? most : wanted;
}

/* Reads a file's programs; gives how many there are. */
static inline int pattern_read(const char *file, struct pattern_program programs[PATTERN_PROGRAMS])
{
    static char text[1 << 20];
    FILE *stream = fopen(file, "r");
    size_t length = stream == NULL ? 0 : fread(text, 1, sizeof text - 1, stream);
    if (stream == NULL || ferror(stream) || length == sizeof text - 1) {
        fprintf(stderr, "%s: cannot be read, or is larger than %zu bytes\n", file, sizeof text - 1);
        exit(2);
    }
    fclose(stream);
    struct pattern_reader reader = {file, text, text};
    char name[32];
    int count = 0;
    for (bool first = true; pattern_member(&reader, &first, name);) {
        if (strcmp(name, "programs") != 0) {
            pattern_skip(&reader);
            continue;
        }
        for (bool first_inner = true; pattern_member(&reader, &first_inner, name);) {
            if (count == PATTERN_PROGRAMS)
                pattern_refuse(&reader, "fewer programs");
            memcpy(programs[count].name, name, sizeof name);
            pattern_one(&reader, &programs[count]);
            programs[count].pages = pattern_pages(&programs[count]);
            count++;
        }
    }
    return count;
}

/* The fewest and the most bytes that `objects` of a bin can be, the bin's others being what remains
   of it. */
static inline struct pattern_amount pattern_limits(const struct pattern_bin *bin, uint64_t objects)
{
    uint64_t others = bin->amount.objects - objects, bytes = bin->amount.bytes;
    uint64_t least = objects * bin->low, most = objects * bin->high;
    if (bytes > others * bin->high && bytes - others * bin->high > least)
        least = bytes - others * bin->high;
    if (bytes - others * bin->low < most)
        most = bytes - others * bin->low;
    return (struct pattern_amount){least, most};
}

/* Says how much of each bin is scanned. The smallest objects are, as far as the number of scanned
 * ones goes; then small ones are exchanged for the largest until the bytes fit, and what is still
 * missing is found within the bins. False if that cannot be. */
static inline bool pattern_divide(const struct pattern_program *program,
    struct pattern_amount scanned[PATTERN_BINS])
{
    uint64_t objects = program->scanned.objects, bytes = 0;
    for (int i = 0; i < program->bins; i++) {
        const struct pattern_amount *amount = &program->bin[i].amount;
        scanned[i].objects = objects < amount->objects ? objects : amount->objects;
        objects -= scanned[i].objects;
    }
    double mean[PATTERN_BINS], missing = (double)program->scanned.bytes;
    for (int i = 0; i < program->bins; i++) {
        mean[i] = (double)program->bin[i].amount.bytes / (double)program->bin[i].amount.objects;
        missing -= mean[i] * (double)scanned[i].objects;
    }
    for (int low = 0, high = program->bins - 1; low < high && missing > 0;) {
        uint64_t room = program->bin[high].amount.objects - scanned[high].objects;
        uint64_t exchanged = scanned[low].objects < room ? scanned[low].objects : room;
        double each = mean[high] - mean[low];
        if ((double)exchanged * each > missing)
            exchanged = (uint64_t)(missing / each);
        scanned[low].objects -= exchanged;
        scanned[high].objects += exchanged;
        missing -= (double)exchanged * each;
        if (exchanged == 0 || scanned[high].objects == program->bin[high].amount.objects)
            high--;
        else if (scanned[low].objects == 0)
            low++;
    }
    for (int i = 0; i < program->bins; i++) {
        struct pattern_amount limits = pattern_limits(&program->bin[i], scanned[i].objects);
        uint64_t wanted = (uint64_t)(mean[i] * (double)scanned[i].objects);
        scanned[i].bytes = wanted < limits.objects ? limits.objects : wanted > limits.bytes
            ? limits.bytes : wanted;
        bytes += scanned[i].bytes;
    }
    for (int i = 0; i < program->bins && bytes != program->scanned.bytes; i++) {
        struct pattern_amount limits = pattern_limits(&program->bin[i], scanned[i].objects);
        uint64_t step = bytes < program->scanned.bytes ? limits.bytes - scanned[i].bytes
            : scanned[i].bytes - limits.objects;
        uint64_t off = bytes < program->scanned.bytes ? program->scanned.bytes - bytes
            : bytes - program->scanned.bytes;
        step = step < off ? step : off;
        scanned[i].bytes += bytes < program->scanned.bytes ? step : -step;
        bytes += bytes < program->scanned.bytes ? step : -step;
    }
    return objects == 0 && bytes == program->scanned.bytes;
}

#endif

/* tree_of_maps.h: the live data of live.c, pauses.c and programs in cliffs: a tree whose inner
 * nodes and leaves are hash maps of 64 entries, all small objects.
 *
 * An entry of a leaf map holds a value, a value holds a note (a short text, without pointers): per
 * key 32 + 32 + 24 bytes and its part of the map. Keys are 0, 1, 2, …; the digits of a key to the
 * base 64 are the way from the root to its entry. Invariant: the value found under a key carries
 * that key, the note's text is made from key and version. One thread for each tree. */
#ifndef NEAP_BENCH_TREE_OF_MAPS_H
#define NEAP_BENCH_TREE_OF_MAPS_H

#include "bench_gc.h"

enum { MAP_DIGIT_BITS = 6, MAP_ENTRIES = 1 << MAP_DIGIT_BITS, NOTE_BYTES = 24 };

struct value {
    uint64_t key, version, sum;
    char *note;
};

struct entry {
    struct entry *next;
    uint64_t digit;
    void *content;      /* a struct value in a leaf map, else the next map */
    uint64_t uses;
};

struct map {
    struct entry **buckets;
    uint64_t entries;
};

struct tree {
    struct map *root;
    unsigned levels;
    uint64_t keys;
    size_t bytes;       /* requested for what is alive */
};

static inline uint64_t tree_sum(uint64_t key, uint64_t version)
{
    return bench_mix(key * 31 + version);
}

static inline struct value *tree_make_value(uint64_t key, uint64_t version)
{
    struct value *value = bench_gc_allocate(sizeof *value);
    value->key = key;
    value->version = version;
    value->sum = tree_sum(key, version);
    value->note = bench_gc_allocate_leaf(NOTE_BYTES);
    memset(value->note, (int)('a' + value->sum % 26), NOTE_BYTES - 1);
    value->note[NOTE_BYTES - 1] = '\0';
    return value;
}

static inline bool tree_value_right(const struct value *value, uint64_t key)
{
    char letter = (char)('a' + value->sum % 26);
    return value->key == key && value->sum == tree_sum(key, value->version) &&
        value->note[0] == letter
           && value->note[NOTE_BYTES - 2] == letter && value->note[NOTE_BYTES - 1] == '\0';
}

static inline struct map *tree_make_map(struct tree *tree)
{
    struct map *map = bench_gc_allocate(sizeof *map);
    map->buckets = bench_gc_allocate(MAP_ENTRIES * sizeof *map->buckets);
    tree->bytes += sizeof *map + MAP_ENTRIES * sizeof *map->buckets;
    return map;
}

static inline struct entry **tree_bucket(struct map *map, uint64_t digit)
{
    return &map->buckets[bench_mix(digit) % MAP_ENTRIES];
}

static inline struct entry *tree_find_in_map(struct map *map, uint64_t digit)
{
    struct entry *entry = *tree_bucket(map, digit);
    while (entry != NULL && entry->digit != digit)
        entry = entry->next;
    return entry;
}

/* The entry for `digit`, made when it is not there. */
static inline struct entry *tree_entry(struct tree *tree, struct map *map, uint64_t digit)
{
    struct entry *entry = tree_find_in_map(map, digit);
    if (entry == NULL) {
        struct entry **bucket = tree_bucket(map, digit);
        entry = bench_gc_allocate(sizeof *entry);
        entry->digit = digit;
        entry->next = *bucket;
        *bucket = entry;
        map->entries++;
        tree->bytes += sizeof *entry;
    }
    return entry;
}

static inline uint64_t tree_digit(uint64_t key, unsigned level)
{
    return key >> (MAP_DIGIT_BITS * level) & (MAP_ENTRIES - 1);
}

/* The leaf entry of a key, or NULL. */
static inline struct entry *tree_find(struct tree *tree, uint64_t key)
{
    struct map *map = tree->root;
    struct entry *entry = NULL;
    for (unsigned level = tree->levels; level-- > 0;) {
        entry = tree_find_in_map(map, tree_digit(key, level));
        if (entry == NULL)
            return NULL;
        map = entry->content;
    }
    return entry;
}

/* An empty tree that can grow to `bytes`. */
static inline void tree_start(struct tree *tree, size_t bytes)
{
    /* A key costs at least 88 bytes, which bounds the number of levels needed. */
    tree->levels = 1;
    while ((bytes / 88) >> (MAP_DIGIT_BITS * tree->levels) != 0)
        tree->levels++;
    tree->root = tree_make_map(tree);
}

/* Adds the next key. */
static inline void tree_add(struct tree *tree)
{
    uint64_t key = tree->keys++;
    struct map *map = tree->root;
    for (unsigned level = tree->levels; --level > 0;) {
        struct entry *entry = tree_entry(tree, map, tree_digit(key, level));
        if (entry->content == NULL)
            entry->content = tree_make_map(tree);
        map = entry->content;
    }
    struct entry *entry = tree_entry(tree, map, tree_digit(key, 0));
    entry->content = tree_make_value(key, 0);
    tree->bytes += sizeof(struct value) + NOTE_BYTES;
}

/* Fills the tree until `bytes` have been requested for what it holds. */
static inline void tree_build(struct tree *tree, size_t bytes)
{
    tree_start(tree, bytes);
    while (tree->bytes < bytes)
        tree_add(tree);
}

/* Looks up a random key and puts a new value in the old one's place; false when what was found is
   wrong. */
static inline bool tree_replace_one(struct tree *tree, uint64_t *random)
{
    uint64_t key = (bench_random(random) >> 11) % tree->keys;
    struct entry *entry = tree_find(tree, key);
    if (entry == NULL)
        return false;
    struct value *value = entry->content;
    bool right = tree_value_right(value, key);
    entry->content = tree_make_value(key, value->version + 1);
    entry->uses++;
    return right;
}

/* The number of keys whose value is right, which should be all. */
static inline uint64_t tree_count_right(struct tree *tree)
{
    uint64_t right = 0;
    for (uint64_t key = 0; key < tree->keys; key++) {
        struct entry *entry = tree_find(tree, key);
        right += entry != NULL && tree_value_right(entry->content, key);
    }
    return right;
}

#endif

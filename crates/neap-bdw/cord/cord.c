/* Cords as trees: made, cut, balanced, gone through. Any thread may use any cord. */
#include "cord_node.h"
#include <stdarg.h>
#include <stdlib.h>

/* Texts up to this length are copied, not shared: a node is larger. */
enum { SHORT = 15 };

void (*CORD_oom_fn)(void) = NULL;

void *cord_allocated(void *memory)
{
    if (memory == NULL) {
        if (CORD_oom_fn != NULL)
            CORD_oom_fn();
        fputs("libcord: out of memory\n", stderr);
        abort();
    }
    return memory;
}

static char *new_text(size_t length)
{
    char *text = cord_allocated(GC_MALLOC_ATOMIC(length + 1));
    text[length] = '\0';
    return text;
}

size_t CORD_len(CORD cord)
{
    if (cord == CORD_EMPTY)
        return 0;
    return is_string(cord) ? strlen(cord) : node_of(cord)->length;
}

/* A tree of both, none of them empty, however deep. */
static CORD join(CORD left, size_t left_length, CORD right, size_t right_length)
{
    struct node *node = cord_allocated(GC_MALLOC(sizeof *node));
    int left_depth = depth_of(left), right_depth = depth_of(right);
    node->kind = CONCATENATION;
    node->depth = (unsigned char)(1 + (left_depth > right_depth ? left_depth : right_depth));
    node->length = left_length + right_length;
    node->of.both.left = left;
    node->of.both.right = right;
    node->of.both.left_length = left_length;
    return (CORD)(void *)node;
}

/* The cord's right end, if that is a C string; its length through the pointer. */
static CORD right_end(CORD cord, size_t *length)
{
    if (is_string(cord)) {
        *length = strlen(cord);
        return cord;
    }
    if (!is_concatenation(cord) || !is_string(node_of(cord)->of.both.right))
        return CORD_EMPTY;
    *length = node_of(cord)->length - node_of(cord)->of.both.left_length;
    return node_of(cord)->of.both.right;
}

static CORD concatenate(CORD first, CORD second, size_t second_length)
{
    size_t end_length = 0;
    CORD end, result;
    if (first == CORD_EMPTY)
        return second;
    if (second == CORD_EMPTY)
        return first;
    end = is_string(second) ? right_end(first, &end_length) : CORD_EMPTY;
    if (end != CORD_EMPTY && end_length + second_length <= SHORT) {
        char *text = new_text(end_length + second_length);
        memcpy(text, end, end_length);
        memcpy(text + end_length, second, second_length);
        if (is_string(first))
            return text;
        return join(node_of(first)->of.both.left, node_of(first)->of.both.left_length, text,
                    end_length + second_length);
    }
    result = join(first, CORD_len(first), second, second_length);
    return depth_of(result) > MAX_DEPTH ? CORD_balance(result) : result;
}

CORD CORD_cat(CORD first, CORD second)
{
    return concatenate(first, second, CORD_len(second));
}

/* Characters of a text in memory that has '\0' among them. */
static char from_memory(size_t index, void *data)
{
    return ((const char *)data)[index];
}

CORD CORD_cat_char_star(CORD first, const char *text, size_t length)
{
    if (length == 0)
        return first;
    if (memchr(text, '\0', length) == NULL && text[length] == '\0')
        return concatenate(first, text, length);
    char *copy = new_text(length);
    memcpy(copy, text, length);
    if (memchr(copy, '\0', length) != NULL)
        return CORD_cat(first, CORD_from_fn(from_memory, copy, length));
    return concatenate(first, copy, length);
}

CORD CORD_catn(int count, ...)
{
    va_list cords;
    CORD result = CORD_EMPTY;
    va_start(cords, count);
    for (int at = 0; at < count; at++)
        result = CORD_cat(result, va_arg(cords, CORD));
    va_end(cords);
    return result;
}

static CORD function_node(CORD_fn function, void *data, size_t start, size_t length)
{
    struct node *node = cord_allocated(GC_MALLOC(sizeof *node));
    node->kind = FUNCTION;
    node->length = length;
    node->of.called.function = function;
    node->of.called.data = data;
    node->of.called.start = start;
    return (CORD)(void *)node;
}

/* Short ones become strings at once, unless a '\0' is among them. */
CORD CORD_from_fn(CORD_fn function, void *data, size_t length)
{
    char text[SHORT + 1];
    size_t known = 0;
    if (length == 0)
        return CORD_EMPTY;
    if (length > SHORT)
        return function_node(function, data, 0, length);
    while (known < length && (text[known] = function(known, data)) != '\0')
        known++;
    if (known < length)
        return function_node(function, data, 0, length);
    return memcpy(new_text(length), text, length);
}

/* Not empty, and all within the cord, which is so long. */
static CORD part(CORD cord, size_t cord_length, size_t index, size_t length)
{
    if (length == cord_length)
        return cord;
    if (is_string(cord)) {
        if (index + length == cord_length)
            return cord + index;
        return length <= SHORT ? memcpy(new_text(length), cord + index, length)
                               : function_node(from_memory, (void *)(size_t)cord, index, length);
    }
    const struct node *node = node_of(cord);
    if (node->kind == FUNCTION)
        return function_node(node->of.called.function, node->of.called.data,
                             node->of.called.start + index, length);
    size_t left_length = node->of.both.left_length;
    size_t right_length = node->length - left_length;
    if (index >= left_length)
        return part(node->of.both.right, right_length, index - left_length, length);
    if (index + length <= left_length)
        return part(node->of.both.left, left_length, index, length);
    size_t from_left = left_length - index;
    return concatenate(part(node->of.both.left, left_length, index, from_left),
                       part(node->of.both.right, right_length, 0, length - from_left),
                       length - from_left);
}

CORD CORD_substr(CORD cord, size_t index, size_t length)
{
    size_t cord_length = CORD_len(cord);
    if (index >= cord_length || length == 0)
        return CORD_EMPTY;
    if (length > cord_length - index)
        length = cord_length - index;
    return part(cord, cord_length, index, length);
}

/* Trees of text, in order from the last to the first: that at `level` is so long as makes its depth
   worth it, the Fibonacci number of the level or more. */
struct forest {
    CORD trees[MAX_DEPTH + 1];
    size_t least[MAX_DEPTH + 2];
};

static CORD put_before(CORD tree, CORD rest)
{
    if (tree == CORD_EMPTY || rest == CORD_EMPTY)
        return tree == CORD_EMPTY ? rest : tree;
    return join(tree, CORD_len(tree), rest, CORD_len(rest));
}

static void plant(struct forest *forest, CORD tree, size_t length)
{
    int level = 0;
    CORD before = CORD_EMPTY;
    /* What is shorter, and so lies at a lower level, comes right before it. */
    for (; level < MAX_DEPTH && length >= forest->least[level + 1]; level++) {
        before = put_before(forest->trees[level], before);
        forest->trees[level] = CORD_EMPTY;
    }
    tree = put_before(before, tree);
    for (;; level++) {
        tree = put_before(forest->trees[level], tree);
        forest->trees[level] = CORD_EMPTY;
        if (level == MAX_DEPTH || CORD_len(tree) < forest->least[level + 1])
            break;
    }
    forest->trees[level] = tree;
}

static void plant_parts(struct forest *forest, CORD cord, size_t length)
{
    if (is_concatenation(cord)) {
        const struct node *node = node_of(cord);
        if (node->depth >= MAX_DEPTH || node->length < forest->least[node->depth]) {
            plant_parts(forest, node->of.both.left, node->of.both.left_length);
            plant_parts(forest, node->of.both.right, length - node->of.both.left_length);
            return;
        }
    }
    plant(forest, cord, length);
}

CORD CORD_balance(CORD cord)
{
    struct forest *forest;
    CORD result = CORD_EMPTY;
    if (cord == CORD_EMPTY || !is_concatenation(cord))
        return cord;
    forest = cord_allocated(GC_MALLOC(sizeof *forest));
    forest->least[0] = 1;
    forest->least[1] = 2;
    for (int level = 2; level <= MAX_DEPTH + 1; level++)
        forest->least[level] = forest->least[level - 1] + forest->least[level - 2];
    plant_parts(forest, cord, CORD_len(cord));
    for (int level = 0; level <= MAX_DEPTH; level++)
        result = put_before(forest->trees[level], result);
    if (depth_of(result) > MAX_DEPTH) {
        fputs("libcord: a cord of more than ten thousand million characters\n", stderr);
        abort();
    }
    return result;
}

int CORD_iter5(CORD cord, size_t index, CORD_iter_fn function, CORD_batched_iter_fn batched,
               void *data)
{
    int result = 0;
    if (cord == CORD_EMPTY)
        return 0;
    if (is_string(cord)) {
        if (batched != CORD_NO_FN)
            return index < strlen(cord) ? batched(cord + index, data) : 0;
        for (const char *at = cord + index; *at != '\0' && result == 0; at++)
            result = function(*at, data);
        return result;
    }
    const struct node *node = node_of(cord);
    if (node->kind == FUNCTION) {
        for (; index < node->length && result == 0; index++)
            result = function(call(node, index), data);
        return result;
    }
    size_t left_length = node->of.both.left_length;
    if (index < left_length) {
        result = CORD_iter5(node->of.both.left, index, function, batched, data);
        index = left_length;
    }
    if (result != 0)
        return result;
    return CORD_iter5(node->of.both.right, index - left_length, function, batched, data);
}

#undef CORD_iter
int CORD_iter(CORD cord, CORD_iter_fn function, void *data)
{
    return CORD_iter5(cord, 0, function, CORD_NO_FN, data);
}

int CORD_riter4(CORD cord, size_t index, CORD_iter_fn function, void *data)
{
    int result = 0;
    if (cord == CORD_EMPTY)
        return 0;
    if (is_concatenation(cord)) {
        const struct node *node = node_of(cord);
        size_t left_length = node->of.both.left_length;
        if (index >= left_length) {
            result = CORD_riter4(node->of.both.right, index - left_length, function, data);
            index = left_length - 1;
        }
        return result != 0 ? result : CORD_riter4(node->of.both.left, index, function, data);
    }
    for (size_t left = index + 1; left > 0 && result == 0; left--)
        result = function(is_string(cord) ? cord[left - 1] : call(node_of(cord), left - 1), data);
    return result;
}

int CORD_riter(CORD cord, CORD_iter_fn function, void *data)
{
    size_t length = CORD_len(cord);
    return length == 0 ? 0 : CORD_riter4(cord, length - 1, function, data);
}

static void dump(CORD cord, int indent)
{
    printf("%*s", indent, "");
    if (cord == CORD_EMPTY) {
        puts("(empty)");
    } else if (is_string(cord)) {
        printf("\"%s\"\n", cord);
    } else if (is_concatenation(cord)) {
        printf("both, %zu characters, depth %d\n", node_of(cord)->length, depth_of(cord));
        dump(node_of(cord)->of.both.left, indent + 2);
        dump(node_of(cord)->of.both.right, indent + 2);
    } else {
        printf("a function, %zu characters\n", node_of(cord)->length);
    }
}

void CORD_dump(CORD cord)
{
    dump(cord, 0);
    fflush(stdout);
}

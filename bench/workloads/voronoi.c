/* voronoi POINTS [conservative|typed]: the Delaunay triangulation (the Voronoi diagram's dual) of
 * random points, by divide and conquer over quad-edges.
 *
 * The method is Guibas and Stolfi's. As in the program of the pattern of this name, an edge is an
 * array of pointers to its four directed parts, and every difference of two points in a test for
 * circles is a new object: with 16,384 points about as many as there. The checks: Euler's formula
 * holds for edges and hull, and no edge has a point of its neighbouring triangles inside its
 * circle. */
#include "workload.h"

enum { PARTS = 4, COORDINATE_BITS = 24 };

/* Whole numbers in doubles, so that every test can be computed exactly. */
struct vector {
    double x, y, length;
};

struct vertex {
    struct vector *place;
    uint64_t number;
    struct vertex *left, *right; /* the tree that the points were sorted by */
};

/* One of the four directed parts of an edge: two between points, two between faces. */
struct part {
    struct part *next;    /* counterclockwise around its origin */
    struct vertex *origin; /* null for the two between faces */
    struct part **edge;   /* the PARTS of its edge */
    uint64_t index;       /* which of them; SEEN is added when counted */
};

enum { SEEN = 16 };

static struct workload_type vector_type = {sizeof(struct vector), 0, 0, false};
static struct workload_type vertex_type = {sizeof(struct vertex), 1 << 0 | 1 << 2 | 1 << 3, 0,
    false};
static struct workload_type part_type = {sizeof(struct part), 1 << 0 | 1 << 1 | 1 << 2, 0, false};
static struct workload_type edge_type = {PARTS * sizeof(struct part *), 0xf, 0, false};

static struct part *turned(const struct part *part, unsigned quarters)
{
    return part->edge[(part->index + quarters) % PARTS];
}
static struct part *opposite(const struct part *part) { return turned(part, 2); }
static struct vertex *target(const struct part *part) { return opposite(part)->origin; }
static struct part *before_origin(const struct part *part) { return turned(turned(part, 1)->next,
    1); }
static struct part *next_left(const struct part *part) { return turned(turned(part, 3)->next, 1); }
static struct part *before_right(const struct part *part) { return opposite(part)->next; }

static struct part *make_edge(struct vertex *from, struct vertex *to)
{
    struct part **edge = workload_new(&edge_type);
    for (unsigned i = 0; i < PARTS; i++) {
        edge[i] = workload_new(&part_type);
        edge[i]->edge = edge;
        edge[i]->index = i;
    }
    edge[0]->origin = from;
    edge[2]->origin = to;
    edge[0]->next = edge[0];
    edge[2]->next = edge[2];
    edge[1]->next = edge[3];
    edge[3]->next = edge[1];
    return edge[0];
}

static void swap_next(struct part *a, struct part *b)
{
    struct part *next = a->next;
    a->next = b->next;
    b->next = next;
}

static void splice(struct part *a, struct part *b)
{
    struct part *alpha = turned(a->next, 1), *beta = turned(b->next, 1);
    swap_next(a, b);
    swap_next(alpha, beta);
}

/* A new edge from the end of `a` to the beginning of `b`, with the same face on the left of all
   three. */
static struct part *connect(struct part *a, struct part *b)
{
    struct part *edge = make_edge(target(a), b->origin);
    splice(edge, next_left(a));
    splice(opposite(edge), b);
    return edge;
}

static void disconnect(struct part *edge)
{
    splice(edge, before_origin(edge));
    splice(opposite(edge), before_origin(opposite(edge)));
}

static struct vector *difference(const struct vertex *a, const struct vertex *b)
{
    struct vector *way = workload_new(&vector_type);
    way->x = a->place->x - b->place->x;
    way->y = a->place->y - b->place->y;
    return way;
}

/* Twice the area of a triangle, above 0 if its corners are named counterclockwise; exact. */
static int64_t area(const struct vertex *a, const struct vertex *b, const struct vertex *c)
{
    const struct vector *p = a->place, *q = b->place, *r = c->place;
    return (int64_t)(q->x - p->x) * (int64_t)(r->y - p->y) -
           (int64_t)(q->y - p->y) * (int64_t)(r->x - p->x);
}

/* Whether `d` lies inside the circle through the counterclockwise triangle; exact. */
static bool in_circle(const struct vertex *a, const struct vertex *b, const struct vertex *c,
    const struct vertex *d)
{
    const struct vector *ways[3] = {difference(a, d), difference(b, d), difference(c, d)};
    __int128 sum = 0;
    for (int i = 0; i < 3; i++) {
        const struct vector *u = ways[i], *v = ways[(i + 1) % 3], *w = ways[(i + 2) % 3];
        int64_t square = (int64_t)u->x * (int64_t)u->x + (int64_t)u->y * (int64_t)u->y;
        sum += (__int128)square * ((int64_t)v->x * (int64_t)w->y - (int64_t)v->y * (int64_t)w->x);
    }
    return sum > 0;
}

static bool right_of(const struct vertex *point,
    const struct part *edge) { return area(point, target(edge), edge->origin) > 0; }
static bool left_of(const struct vertex *point,
    const struct part *edge) { return area(point, edge->origin, target(edge)) > 0; }

/* The hull's edges out of the leftmost point (counterclockwise) and out of the rightmost one
   (clockwise). */
struct hull {
    struct part *left, *right;
};

/* Joins two triangulations that lie side by side, edge by edge upwards from their lower common
   tangent. */
static struct hull merge(struct hull left, struct part *inner_left, struct part *inner_right,
    struct hull right)
{
    for (;;) {
        if (left_of(inner_right->origin, inner_left))
            inner_left = next_left(inner_left);
        else if (right_of(inner_left->origin, inner_right))
            inner_right = before_right(inner_right);
        else
            break;
    }
    struct part *base = connect(opposite(inner_right), inner_left);
    if (inner_left->origin == left.left->origin)
        left.left = opposite(base);
    if (inner_right->origin == right.right->origin)
        right.right = base;
    for (;;) {
        struct part *on_left = opposite(base)->next, *on_right = before_origin(base);
        if (right_of(target(on_left), base))
            while (in_circle(target(base), base->origin, target(on_left), target(on_left->next))) {
                struct part *next = on_left->next;
                disconnect(on_left);
                on_left = next;
            }
        if (right_of(target(on_right), base))
            while (in_circle(target(base), base->origin, target(on_right),
                target(before_origin(on_right)))) {
                struct part *next = before_origin(on_right);
                disconnect(on_right);
                on_right = next;
            }
        bool left_fits = right_of(target(on_left), base),
            right_fits = right_of(target(on_right), base);
        if (!left_fits && !right_fits)
            return (struct hull){left.left, right.right};
        if (!left_fits || (right_fits && in_circle(target(on_left), on_left->origin,
            on_right->origin, target(on_right))))
            base = connect(on_right, opposite(base));
        else
            base = connect(opposite(base), opposite(on_left));
    }
}

/* Triangulates `count` points, at least two, sorted from left to right. */
static struct hull triangulate(struct vertex **points, long count)
{
    if (count == 2) {
        struct part *edge = make_edge(points[0], points[1]);
        return (struct hull){edge, opposite(edge)};
    }
    if (count == 3) {
        struct part *first = make_edge(points[0], points[1]),
            *second = make_edge(points[1], points[2]);
        splice(opposite(first), second);
        int64_t turn = area(points[0], points[1], points[2]);
        if (turn == 0)
            return (struct hull){first, opposite(second)};
        struct part *third = connect(second, first);
        return turn > 0 ? (struct hull){first, opposite(second)}
            : (struct hull){opposite(third), third};
    }
    struct hull left = triangulate(points, count / 2);
    struct hull right = triangulate(points + count / 2, count - count / 2);
    return merge(left, left.right, right.left, right);
}

static int by_place(const void *a, const void *b)
{
    const struct vector *left = (*(struct vertex *const *)a)->place,
        *right = (*(struct vertex *const *)b)->place;
    if (left->x != right->x)
        return left->x < right->x ? -1 : 1;
    return (left->y > right->y) - (left->y < right->y);
}

/* Puts a vertex into the tree by its place; false if there is one in this place. */
static bool plant(struct vertex **root, struct vertex *vertex)
{
    while (*root != NULL) {
        int order = by_place(&vertex, root);
        if (order == 0)
            return false;
        root = order < 0 ? &(*root)->left : &(*root)->right;
    }
    *root = vertex;
    return true;
}

static struct vertex *make_points(long count)
{
    struct vertex *root = NULL;
    uint64_t state = 30000;
    for (long i = 0; i < count;) {
        struct vertex *vertex = workload_new(&vertex_type);
        vertex->place = workload_new(&vector_type);
        vertex->place->x = (double)(bench_random(&state) >> (64 - COORDINATE_BITS));
        vertex->place->y = (double)(bench_random(&state) >> (64 - COORDINATE_BITS));
        vertex->number = (uint64_t)i;
        i += plant(&root, vertex);
    }
    return root;
}

/* Writes the tree's vertices in order behind `out`; gives where the next would go. */
static struct vertex **in_order(struct vertex *tree, struct vertex **out)
{
    if (tree == NULL)
        return out;
    out = in_order(tree->left, out);
    *out++ = tree;
    return in_order(tree->right, out);
}

/* Whether the two triangles at an edge are as they should be: neither has the other's third corner
   inside its circle. */
static bool is_delaunay(const struct part *edge)
{
    struct vertex *left = target(edge->next), *right = target(before_origin(edge));
    if (area(edge->origin, target(edge), left) <= 0 || area(edge->origin, right, target(edge)) <= 0)
        return true; /* an edge of the hull has one triangle */
    return !in_circle(edge->origin, target(edge), left, right);
}

/* Counts the edges that can be reached, checking each; `room` is how many there may be. */
static long count_edges(struct part *start, long room, bool *ok)
{
    struct part **waiting = malloc(((size_t)room * 4 + 8) * sizeof *waiting);
    long count = 0, top = 0;
    if (waiting == NULL)
        return -1;
    /* The triangulation hangs on `start`, which the caller holds: nothing depends on this array
       being scanned. */
    waiting[top++] = start;
    while (top > 0) {
        struct part *part = waiting[--top], *first = part->edge[0];
        if (first->index & SEEN)
            continue;
        if (count++ == room)
            break;
        *ok &= is_delaunay(first);
        first->index |= SEEN;
        waiting[top++] = first->next;
        waiting[top++] = opposite(first)->next;
        waiting[top++] = before_origin(first);
        waiting[top++] = before_origin(opposite(first));
    }
    free(waiting);
    return count;
}

int main(int argc, char **argv)
{
    long count = bench_argument(argc, argv, 1, "POINTS", 16384, 3, 10000000);
    workload_start(workload_typed_argument(argc, argv, 2));
    struct vertex **points = workload_scanned((size_t)count * sizeof *points);
    in_order(make_points(count), points);
    struct hull hull = triangulate(points, count);
    long corners = 0;
    struct part *edge = hull.left;
    do {
        edge = before_right(edge);
        corners++;
    } while (edge != hull.left && corners <= count);
    bool ok = true;
    long edges = count_edges(hull.left, 3 * count, &ok);
    ok &= edges == 3 * count - 3 - corners;
    printf("{\"program\": \"voronoi\", \"points\": %ld, \"edges\": %ld, \"hull\": %ld", count,
        edges, corners);
    workload_print_heap();
    bench_keep(hull.left);
    bench_keep(points);
    return workload_finish(ok);
}

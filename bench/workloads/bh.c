/* bh BODIES STEPS [conservative|typed]: the Barnes-Hut method: BODIES bodies under gravity for
 * STEPS steps, with an octree made anew for each step.
 *
 * As in the program of the pattern of this name, a vector is an object of 16 bytes that points to
 * an array of three numbers (25 bytes, without pointers), and every difference of two places is a
 * new vector: with 4,000 bodies and 8 steps some seven and a half million of them. The checks:
 * energy is kept within 1 %, the tree's forces are those of direct summation within 2.5 % (mean
 * over some bodies), and each tree holds all mass. */
#include "workload.h"

#include <math.h>

enum { DIMENSIONS = 3, CHILDREN = 8, DEEPEST = 64, COMPARED_EVERY = 97 };

/* a cell is taken as one mass if its side is less than this part of its distance */
static const double opening = 1.05;
static const double softening = 0.05;   /* keeps close encounters finite; a length */
static const double time_step = 0.0125;

struct vector {
    double *at;
    uint64_t length;
};

/* A body or a cell of the octree: a cell has children. */
struct node {
    double mass;
    struct vector *place;
    struct node **children; /* CHILDREN of them; null for a body */
};

struct body {
    struct node node;
    struct vector *velocity, *acceleration;
    struct body *next;
};

static struct workload_type vector_type = {sizeof(struct vector), 1 << 0, 0, false};
static struct workload_type node_type = {sizeof(struct node), 1 << 1 | 1 << 2, 0, false};
static struct workload_type children_type = {CHILDREN * sizeof(struct node *), 0xff, 0, false};
static struct workload_type body_type = {sizeof(struct body), 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4
    | 1 << 5, 0, false};
static uint64_t random_state = 123456789;

static double uniform(double low, double high)
{
    return low + (high - low) * ((double)(bench_random(&random_state) >> 11) * 0x1p-53);
}

static struct vector *make_vector(double x, double y, double z)
{
    struct vector *vector = workload_new(&vector_type);
    vector->at = workload_leaf(DIMENSIONS * sizeof(double) + 1);
    vector->length = DIMENSIONS;
    vector->at[0] = x;
    vector->at[1] = y;
    vector->at[2] = z;
    return vector;
}

static struct vector *difference(const struct vector *a, const struct vector *b)
{
    return make_vector(a->at[0] - b->at[0], a->at[1] - b->at[1], a->at[2] - b->at[2]);
}

static double square(const struct vector *v)
{
    return v->at[0] * v->at[0] + v->at[1] * v->at[1] + v->at[2] * v->at[2];
}

static void add_scaled(struct vector *to, double factor, const struct vector *v)
{
    for (int i = 0; i < DIMENSIONS; i++)
        to->at[i] += factor * v->at[i];
}

static struct vector *on_sphere(double radius)
{
    double z = uniform(-1, 1), angle = uniform(0, 2 * M_PI), across = sqrt(1 - z * z);
    return make_vector(radius * across * cos(angle), radius * across * sin(angle), radius * z);
}

/* Bodies of Plummer's model: a ball of stars in balance, of mass 1 in all. */
static struct body *make_bodies(long count)
{
    struct body *first = NULL;
    for (long i = 0; i < count; i++) {
        struct body *body = workload_new(&body_type);
        double radius = 1 / sqrt(pow(uniform(0.001, 0.99), -2.0 / 3) - 1), speed, chance;
        do {
            speed = uniform(0, 1);
            chance = uniform(0, 0.1);
        } while (chance > speed * speed * pow(1 - speed * speed, 3.5));
        body->node.mass = 1.0 / (double)count;
        body->node.place = on_sphere(radius * 3 * M_PI / 16);
        body->velocity = on_sphere(speed * M_SQRT2 / pow(1 + radius * radius,
            0.25) / sqrt(3 * M_PI / 16));
        body->acceleration = make_vector(0, 0, 0);
        body->next = first;
        first = body;
    }
    return first;
}

/* Which of a cell's children a place lies in; moves `middle` to that child's, `half` being half of
   its side. */
static int child_of(const struct vector *place, double *middle, double half)
{
    int index = 0;
    for (int i = 0; i < DIMENSIONS; i++) {
        bool above = place->at[i] >= middle[i];
        index |= above << i;
        middle[i] += above ? half : -half;
    }
    return index;
}

static struct node *make_cell(void)
{
    struct node *cell = workload_new(&node_type);
    cell->children = workload_new(&children_type);
    return cell;
}

/* Puts a body into the tree whose root has the side `2 * half` around the origin. */
static void insert(struct node *root, struct node *body, double half)
{
    double middle[DIMENSIONS] = {0, 0, 0};
    struct node *cell = root;
    for (int depth = 0; depth < DEEPEST; depth++) {
        half /= 2;
        struct node **slot = &cell->children[child_of(body->place, middle, half)];
        if (*slot == NULL) {
            *slot = body;
            return;
        }
        if ((*slot)->children == NULL) {
            /* The body that is here goes down a level, and the new one after it. */
            struct node *other = *slot;
            double below[DIMENSIONS] = {middle[0], middle[1], middle[2]};
            *slot = make_cell();
            (*slot)->children[child_of(other->place, below, half / 2)] = other;
        }
        cell = *slot;
    }
    fprintf(stderr, "bh: two bodies are in one place\n");
    exit(1);
}

/* Mass and centre of mass of every cell, from the bottom up. */
static void weigh(struct node *cell)
{
    struct vector *sum = make_vector(0, 0, 0);
    cell->mass = 0;
    for (int i = 0; i < CHILDREN; i++) {
        struct node *child = cell->children[i];
        if (child == NULL)
            continue;
        if (child->children != NULL)
            weigh(child);
        cell->mass += child->mass;
        add_scaled(sum, child->mass, child->place);
    }
    cell->place = make_vector(sum->at[0] / cell->mass, sum->at[1] / cell->mass,
        sum->at[2] / cell->mass);
}

/* Adds to `force` what a cell of side `side` pulls with at `body`. */
static void pull(const struct node *node, double side, const struct node *body,
    struct vector *force)
{
    if (node == body)
        return;
    struct vector *way = difference(node->place, body->place);
    double distance = square(way);
    if (node->children == NULL || side * side < opening * opening * distance) {
        double softened = distance + softening * softening;
        add_scaled(force, node->mass / (softened * sqrt(softened)), way);
        return;
    }
    for (int i = 0; i < CHILDREN; i++)
        if (node->children[i] != NULL)
            pull(node->children[i], side / 2, body, force);
}

/* A tree of all bodies; its half side goes to `half`. */
static struct node *make_tree(struct body *first, double *half)
{
    *half = 1;
    for (struct body *body = first; body != NULL; body = body->next)
        for (int i = 0; i < DIMENSIONS; i++)
            while (fabs(body->node.place->at[i]) >= *half)
                *half *= 2;
    struct node *root = make_cell();
    for (struct body *body = first; body != NULL; body = body->next)
        insert(root, &body->node, *half);
    weigh(root);
    return root;
}

/* Forces on all bodies by the tree; half a step of velocity with the old ones and half with the
   new. */
static bool step(struct body *first, bool moving)
{
    for (struct body *body = first; body != NULL && moving; body = body->next) {
        add_scaled(body->velocity, time_step / 2, body->acceleration);
        add_scaled(body->node.place, time_step, body->velocity);
    }
    double half;
    struct node *root = make_tree(first, &half);
    for (struct body *body = first; body != NULL; body = body->next) {
        struct vector *force = make_vector(0, 0, 0);
        pull(root, 2 * half, &body->node, force);
        body->acceleration = force;
        if (moving)
            add_scaled(body->velocity, time_step / 2, force);
    }
    return fabs(root->mass - 1) < 1e-9;
}

/* Energy of the whole, and by direct summation the mean error of the tree's forces over some
   bodies. Plain numbers: this is the check, not the work. */
static double energy(const struct body *first, double *error)
{
    double total = 0, errors = 0;
    long index = 0, compared = 0;
    for (const struct body *a = first; a != NULL; a = a->next, index++) {
        double force[DIMENSIONS] = {0, 0, 0};
        total += a->node.mass * square(a->velocity) / 2;
        for (const struct body *b = first; b != NULL; b = b->next) {
            double way[DIMENSIONS], distance = softening * softening;
            if (a == b)
                continue;
            for (int i = 0; i < DIMENSIONS; i++) {
                way[i] = b->node.place->at[i] - a->node.place->at[i];
                distance += way[i] * way[i];
            }
            total -= a->node.mass * b->node.mass / sqrt(distance) / 2;
            for (int i = 0; i < DIMENSIONS; i++)
                force[i] += b->node.mass * way[i] / (distance * sqrt(distance));
        }
        if (index % COMPARED_EVERY == 0) {
            double off = 0, size = 0;
            for (int i = 0; i < DIMENSIONS; i++) {
                off += (force[i] - a->acceleration->at[i]) * (force[i] - a->acceleration->at[i]);
                size += force[i] * force[i];
            }
            errors += sqrt(off / size);
            compared++;
        }
    }
    *error = errors / (double)compared;
    return total;
}

int main(int argc, char **argv)
{
    long count = bench_argument(argc, argv, 1, "BODIES", 4000, 2, 10000000);
    long steps = bench_argument(argc, argv, 2, "STEPS", 8, 1, 1000000);
    workload_start(workload_typed_argument(argc, argv, 3));
    struct body *first = make_bodies(count);
    double error, before, after;
    bool ok = step(first, false);
    before = energy(first, &error);
    for (long i = 1; i < steps; i++)
        ok &= step(first, true);
    after = energy(first, &error);
    ok &= fabs(after - before) < 0.01 * fabs(before) && error < 0.025;
    printf("{\"program\": \"bh\", \"bodies\": %ld, \"steps\": %ld, \"energy\": [%.6f, %.6f], \"force_error\": %.5f", count, steps, before, after, error);
    workload_print_heap();
    bench_keep(first);
    return workload_finish(ok);
}

// Objective-C on the runtime with garbage collection, which allocates objects by descriptors that it
// makes of their classes. A tree of shapes is changed at random, what falls off it is garbage; tables
// of pointers and text without pointers hang on the objects. Prints sums of what is there at the end.
#import <objc/Object.h>
#import <objc/runtime.h>
#include <objc/objc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void *objc_malloc(size_t), *objc_atomic_malloc(size_t), *objc_realloc(void *, size_t);

@protocol Measured
- (double)area;
- (long)check:(long)salt;
@end

// The fields are of many types, so that the descriptor is no run of pointers.
@interface Shape : Object <Measured> {
@public
    char kind;
    Shape *left;
    double side;
    Shape *right;
    char *label;
    int number;
    Shape **others;
    short count;
}
+ (id)newWithNumber:(int)number;
@end

@interface Circle : Shape {
    float radius[3];
    id inner;
}
@end

static unsigned long state = 88172645463325252UL;
static unsigned long next_random(void) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
}

@implementation Shape
+ (id)newWithNumber:(int)wanted {
    Shape *made = class_createInstance(self, 0);
    made->number = wanted, made->side = wanted % 97 + 0.5, made->kind = (char)(wanted % 7);
    made->label = objc_atomic_malloc(24);
    snprintf(made->label, 24, "shape %d", wanted);
    return made;
}
- (double)area {
    return side * side;
}
- (long)check:(long)salt {
    char wanted[24];
    snprintf(wanted, sizeof wanted, "shape %d", number);
    if (strcmp(wanted, label) || kind != number % 7 || side != number % 97 + 0.5) {
        printf("%s is not what it was\n", wanted);
        exit(1);
    }
    long sum = salt * 31 + number;
    for (int at = 0; at < count; at++)
        sum += others[at]->number;
    return sum;
}
@end

@implementation Circle
+ (id)newWithNumber:(int)wanted {
    Circle *made = [super newWithNumber:wanted];
    for (int at = 0; at < 3; at++)
        made->radius[at] = (float)(wanted % (11 + at));
    made->inner = [Shape newWithNumber:wanted + 1];
    return made;
}
- (double)area {
    return radius[0] * radius[1] + radius[2] + [inner area];
}
- (long)check:(long)salt {
    return [super check:salt] ^ [inner check:salt];
}
@end

@interface Shape (Trees)
- (long)checkAll;
@end

@implementation Shape (Trees)
- (long)checkAll {
    return [self check:7] + (left ? 3 * [left checkAll] : 0) + (right ? 5 * [right checkAll] : 0);
}
@end

static Shape *tree(int depth) {
    int number = (int)(next_random() % 1000000);
    Shape *made = next_random() % 3 ? [Shape newWithNumber:number] : [Circle newWithNumber:number];
    if (depth)
        made->left = tree(depth - 1), made->right = tree(depth - 1);
    return made;
}

static Shape *root;

int main(void) {
    double areas = 0;
    root = tree(14);
    for (int turn = 0; turn < 16000; turn++) {
        Shape *at = root;
        for (int depth = 0; depth < 8; depth++)
            at = next_random() & 1 ? at->left : at->right;
        *(next_random() & 1 ? &at->left : &at->right) = tree(5);
        if (at->count < 60) {
            at->others = at->others ? objc_realloc(at->others, (at->count + 1) * sizeof *at->others)
                                    : objc_malloc(sizeof *at->others);
            at->others[at->count++] = [Circle newWithNumber:turn];
        }
        areas += [at area];
        if (turn % 2000 == 0)
            printf("%d: %ld\n", turn, [root checkAll]);
    }
    printf("%ld, %.1f\n", [root checkAll], areas);
    return 0;
}

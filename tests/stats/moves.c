/* Goes to another folder before it ends: what it was told to write belongs where it began. */
#include <neap.h>
#include <unistd.h>

int main(void) {
    return neap_alloc(64) == NULL || chdir("/") != 0;
}

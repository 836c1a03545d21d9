/* A program with three regions. Build: cc -O2 -I../../crates/opcost-region/include sort.c -o sort */
#include "opcost.h"
#include <stdio.h>
#include <stdlib.h>

#define COUNT 5000

static int compare(const void *one, const void *other)
{
    int a = *(const int *)one, b = *(const int *)other;
    return (a > b) - (a < b);
}

int main(void)
{
    static int numbers[COUNT];
    unsigned state = 1;
    int at, key, found = 0;

    opcost_region_begin("fill");
    for (at = 0; at < COUNT; at++) {
        state = state * 1103515245 + 12345;
        numbers[at] = (int)(state >> 16);
    }
    opcost_region_end("fill", COUNT);

    opcost_region_begin("sort");
    qsort(numbers, COUNT, sizeof numbers[0], compare);
    opcost_region_end("sort", 0);

    for (key = 0; key < 1000; key++) {
        opcost_region_begin("find");
        found += bsearch(&key, numbers, COUNT, sizeof numbers[0], compare) != NULL;
        opcost_region_end("find", 1);
    }
    printf("%d found\n", found);
    return 0;
}

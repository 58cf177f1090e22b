/* For tests of launchers: the processes above a rank. */
#ifndef ANCESTORS_H
#define ANCESTORS_H

#include "check.h"

#include <unistd.h>

/* Returns the parent of a process: of an agent of this host, the launcher. */
static inline pid_t parent_of(pid_t pid) {
    char name[64];
    int parent = 0;
    snprintf(name, sizeof name, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(name, "r");
    CHECK(file != NULL && fscanf(file, "%*d (%*[^)]) %*c %d", &parent) == 1 && parent > 1);
    fclose(file);
    return parent;
}

#endif

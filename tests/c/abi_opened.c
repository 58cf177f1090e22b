/* A program that is linked to no MPI opens the library under its name without a version, as Python's ctypes does.
 * The library doesn't take itself for that of another ABI.
 * build: mpich -abi=mpich -DLIBRARY=libmpi.so -Wl,--as-needed
 * build: standard -abi=standard -DLIBRARY=libmpi_abi.so -Wl,--as-needed
 * ranks: 1 2
 * variants: single
 */
#include <dlfcn.h>
#include <stdio.h>

#define TEXT(name) #name
#define NAME(name) TEXT(name)

int main(int argc, char **argv) {
    /* ISO C has no conversion from data to functions. */
    union {
        void *found;
        int (*init)(int *, char ***);
        int (*finalize)(void);
    } init, finalize;
    if (dlsym(RTLD_DEFAULT, "MPI_Init")) {
        fprintf(stderr, "the program is linked to a library of MPI\n");
        return 1;
    }
    void *library = dlopen(NAME(LIBRARY), RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    init.found = dlsym(library, "MPI_Init");
    finalize.found = dlsym(library, "MPI_Finalize");
    if (!init.found || !finalize.found || init.init(&argc, &argv) || finalize.finalize()) {
        fprintf(stderr, "the library opened as %s doesn't come up\n", NAME(LIBRARY));
        return 1;
    }
    return 0;
}

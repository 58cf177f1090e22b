/* Opens libraries one by one, none of which sees the others, as Python does its extension modules; calls each. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int bad = 0;
    for (int i = 1; i < argc; i++) {
        void *library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) {
            fprintf(stderr, "%s\n", dlerror());
            return 2;
        }
        void (*part)(int *) = (void (*)(int *))dlsym(library, "part");
        int wrong = -1;
        part(&wrong);
        if (wrong != 0) {
            fprintf(stderr, "%s: %d\n", argv[i], wrong);
            bad = 3;
        }
    }
    return bad;
}

/* The libraries of both ABIs in one process (MPI-5.0 section 21.2.1): MPI_Init reports it and ends the job.
 * build: standard -abi=standard -DOTHER=libmpi.so.12
 * build: mpich -abi=mpich -DOTHER=libmpi_abi.so.1
 * ranks: 1
 * variants: single
 * stderr: is loaded in this process beside
 */
#include "check.h"

#include <dlfcn.h>
#include <sys/wait.h>

#define TEXT(name) #name
#define NAME(name) TEXT(name)

int main(int argc, char **argv) {
    pid_t child = fork();
    if (child == 0) {
        void *other = dlopen(NAME(OTHER), RTLD_NOW | RTLD_LOCAL);
        if (!other) {
            fprintf(stderr, "%s\n", dlerror());
            _exit(0);
        }
        MPI_Init(&argc, &argv);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status != 0);
    /* Alone the library comes up. */
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Finalize());
    return 0;
}

/* A rank that was started with SIGQUIT ignored, as background jobs of scripts are, says what it waits for all the same,
 * and ignores the signal again when MPI is over.
 * ranks: 1
 * local: signals
 * stderr: asked for pending operations
 */
#include "check.h"

#include <signal.h>

static int is_ignored(void) {
    struct sigaction now;
    CHECK(sigaction(SIGQUIT, NULL, &now) == 0);
    return now.sa_handler == SIG_IGN;
}

int main(int argc, char **argv) {
    signal(SIGQUIT, SIG_IGN);
    OK(MPI_Init(&argc, &argv));
    CHECK(!is_ignored());
    raise(SIGQUIT);
    OK(MPI_Finalize());
    CHECK(is_ignored());
    return 0;
}

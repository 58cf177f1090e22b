/* Variables that Weft does not read, but look as if it should, are named once.
 * ranks: 2
 * variants: shm
 * env: WEFT_SMH=0
 * env: MPIR_CVAR_NOLOCAL=1
 * stderr: Weft: WEFT_SMH is not read; did you mean WEFT_SHM? (WEFT_WARN=0 leaves such lines out)
 * stderr: Weft: MPIR_CVAR_NOLOCAL is MPICH's; WEFT_SHM=0 says the same
 */
#include "check.h"

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Finalize());
    return 0;
}

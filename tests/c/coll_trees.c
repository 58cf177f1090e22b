/* Data movement by other algorithms than those that the tables choose.
 *
 * ranks: 4 5 8
 * variants: shm
 * timeout: 60
 * env: WEFT_COLL=bcast=scatter-ring,gather=binomial,scatter=binomial,allgather=bruck:3,alltoall=bruck
 */
#include "coll_data.c"

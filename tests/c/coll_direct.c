/* As coll_data.c, with data that is read where its owner has it, whatever its length.
 *
 * ranks: 2 3 4 9
 * variants: shm
 * timeout: 60
 * env: WEFT_COLL=bcast=direct,allgather=direct,alltoall=direct,reduce=direct
 */
#include "coll_data.c"

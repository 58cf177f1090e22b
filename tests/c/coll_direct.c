/* Runs coll_data.c with data of any length read directly from the owner's memory.
 *
 * ranks: 2 3 4 9
 * variants: shm
 * timeout: 60
 * env: WEFT_COLL=bcast=direct,allgather=direct,alltoall=direct,reduce=direct
 */
#include "coll_data.c"

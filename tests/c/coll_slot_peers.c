/* As coll_data.c, with alltoalls that give whole blocks to some ranks at a time, or read them where they are.
 *
 * ranks: 2 3 9
 * variants: shm
 * timeout: 60
 *
 * case: slots
 * env: WEFT_COLL=alltoall=slots-peers
 *
 * case: direct
 * env: WEFT_COLL=alltoall=direct
 */
#include "coll_data.c"

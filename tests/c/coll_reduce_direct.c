/* Runs coll_reduce.c with vectors of any length that the root reads directly from the other rank's memory.
 *
 * ranks: 2 3
 * variants: shm
 * timeout: 60
 * env: WEFT_COLL=reduce=direct
 */
#include "coll_reduce.c"

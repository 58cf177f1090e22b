/* Runs coll_reduce.c with vectors whose shares each rank reads directly from the others' memory, in chunks and whole.
 *
 * ranks: 2 3 9
 * variants: shm
 * timeout: 60
 *
 * case: short
 * env: WEFT_COLL=reduce=direct:1000,allreduce=direct:3000
 *
 * case: long
 * env: WEFT_COLL=reduce=direct,allreduce=direct
 *
 * case: pieces-of-several-slots
 * env: WEFT_COLL=reduce=direct:100000,allreduce=direct:131072
 */
#include "coll_reduce.c"

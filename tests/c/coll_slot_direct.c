/* As coll_reduce.c, with vectors whose shares each rank reads where the others have them, in pieces and whole.
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
 */
#include "coll_reduce.c"

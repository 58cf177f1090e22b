/* As coll_reduce.c, with vectors that the root reads where the other rank has them, whatever their length.
 *
 * ranks: 2 3
 * variants: shm
 * timeout: 60
 * env: WEFT_COLL=reduce=direct
 */
#include "coll_reduce.c"

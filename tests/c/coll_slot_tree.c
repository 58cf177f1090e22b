/* As coll_reduce.c, with reductions to one rank up trees in slots, in short pieces and in long ones.
 *
 * ranks: 3 4 9
 * variants: shm
 * timeout: 60
 *
 * case: chain
 * env: WEFT_COLL=reduce=slots-tree:1:1000
 *
 * case: narrow
 * env: WEFT_COLL=reduce=slots-tree:2
 *
 * case: wide
 * env: WEFT_COLL=reduce=slots-tree:4:4096
 *
 * case: flat
 * env: WEFT_COLL=reduce=slots-tree:15
 */
#include "coll_reduce.c"

/* Reductions by other algorithms than those that the tables choose.
 *
 * ranks: 4 5 8
 * variants: shm
 * timeout: 60
 * env: WEFT_COLL=reduce=halving,allreduce=halving,reduce_scatter=halving,barrier=tree
 */
#include "coll_reduce.c"

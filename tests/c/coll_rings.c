/* As coll_halving.c.
 *
 * ranks: 4 5 8
 * variants: shm
 * timeout: 60
 * env: WEFT_COLL=reduce=binomial,allreduce=ring,reduce_scatter=pairwise
 */
#include "coll_reduce.c"

/* As coll_halving.c.
 *
 * ranks: 4 5 8
 * variants: shm
 * env: WEFT_COLL=reduce=binomial,allreduce=ring,reduce-scatter=pairwise
 */
#include "coll_reduce.c"

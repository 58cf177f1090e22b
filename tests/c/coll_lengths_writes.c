/* As coll_lengths, where all collectives that can go by writes over a network do so, whatever their lengths.
 *
 * ranks: 3 4
 * variants: tcp ofi
 * env: WEFT_SHM=0
 * env: WEFT_COLL=bcast=rdma,reduce=rdma,allreduce=rdma,allgather=rdma,alltoall=rdma
 * timeout: 60
 */
#include "coll_lengths.c"

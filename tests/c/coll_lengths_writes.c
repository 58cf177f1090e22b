/* Runs coll_lengths with writes over the network for all collectives that support them, of any length.
 *
 * ranks: 3 4
 * variants: tcp ofi
 * env: WEFT_SHM=0
 * env: WEFT_COLL=bcast=rdma,reduce=rdma,allreduce=rdma,allgather=rdma,alltoall=rdma
 * timeout: 60
 */
#include "coll_lengths.c"

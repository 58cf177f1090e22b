! Copies of array sections that operations go on using live until the program completes the request, which is when
! mpiexec -check looks whether what is sent was changed: it has nothing to say here.
! ranks: 1 2
! variants: shm tcp
! launcher: -check
program checked_sections
  use mpi_f08
  implicit none
  integer :: rank, size, i
  integer, asynchronous :: a(6, 6), b(6, 6)
  type(MPI_Request) :: requests(4)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  a = rank
  b = -1
  do i = 1, 20
    call MPI_Iallreduce(a(1::2, 1::3), b(2::2, 2::3), 6, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, requests(1))
    call MPI_Iallreduce(a(1::2, 2::3), b(2::2, 1::3), 6, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, requests(2))
    call MPI_Iallreduce(a(1::2, 1::3), b(1::2, 2::3), 6, MPI_INTEGER, MPI_MIN, MPI_COMM_SELF, requests(3))
    call MPI_Iallreduce(a(1::2, 2::3), b(1::2, 1::3), 6, MPI_INTEGER, MPI_SUM, MPI_COMM_SELF, requests(4))
    call MPI_Waitall(4, requests, MPI_STATUSES_IGNORE)
    call check(b(2, 2) == size * (size - 1) / 2 .and. b(6, 4) == size - 1 .and. b(1, 2) == rank .and. b(5, 4) == rank, &
      'reduced')
  end do
  call MPI_Allreduce_init(a(1::2, 1::3), b(2::2, 2::3), 6, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, requests(1))
  do i = 1, 20
    a = i
    call MPI_Start(requests(1))
    call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
    call check(b(2, 2) == size * i, 'reduced again')
  end do
  call MPI_Request_free(requests(1))
  call MPI_Finalize()
end program checked_sections

#include "check.inc"

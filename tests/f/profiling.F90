! A tool in Fortran between program and library: its MPI_SEND calls PMPI_SEND (section 14.2), from
! mpif.h and from module mpi; and one in C, which sees what Fortran calls.
! ranks: 2
! variants: shm
! with: parts/tool.c
! build: mpif -DMPIF -rdynamic
! build: mpi -rdynamic
program profiling
#ifdef MPIF
  implicit none
  include 'mpif.h'
#else
  use mpi
  implicit none
#endif
  integer :: sent, barriers
  common /counts/ sent
  external :: check, count_barriers
  integer :: rank, x, ierr
  sent = 0
  call MPI_INIT(ierr)
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
  x = 5
  if (rank == 0) call MPI_SEND(x, 1, MPI_INTEGER, 1, 0, MPI_COMM_WORLD, ierr)
  if (rank == 1) call PMPI_RECV(x, 1, MPI_INTEGER, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  call check(sent == 1 - rank .and. x == 5, 'tool in Fortran')
  call MPI_BARRIER(MPI_COMM_WORLD, ierr)
  call count_barriers(barriers)
  call check(barriers == 1, 'tool in C')
  call MPI_FINALIZE(ierr)
end program

subroutine MPI_SEND(buf, count, datatype, dest, tag, comm, ierr)
  implicit none
  integer :: buf(*), count, datatype, dest, tag, comm, ierr, sent
  common /counts/ sent
  external :: PMPI_SEND
  sent = sent + 1
  call PMPI_SEND(buf, count, datatype, dest, tag, comm, ierr)
end subroutine

include 'check.inc'

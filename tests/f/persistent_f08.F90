! Persistent collectives and partitioned communication by module mpi_f08: arrays, sections with gaps that go on
! being used after the call that names them, and those that can't be; large counts by the same names.
! ranks: 2
! variants: shm tcp
program persistent
  use mpi_f08
  implicit none
  integer, parameter :: n = 12
  integer :: rank, other, round, ierr, i
  integer :: one(n), all(n)
  integer, asynchronous :: a(2, n), b(3, n), c(2, 2 * n)
  integer(kind=MPI_COUNT_KIND) :: many
  logical :: flag
  type(MPI_Request) :: requests(4), wrong
  type(MPI_Status) :: status

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  other = 1 - rank

  call MPI_Allreduce_init(one, all, n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, requests(1))
  call MPI_Allgather_init(a(2, :), n, MPI_INTEGER, c(1, :), n, MPI_INTEGER, MPI_COMM_WORLD, MPI_INFO_NULL, &
    requests(2))
  many = n
  call MPI_Bcast_init(b(2, :), many, MPI_INTEGER, 0, MPI_COMM_WORLD, MPI_INFO_NULL, requests(3))
  call MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, requests(4))
  do round = 1, 4
    one = [(round * 100 + rank * 10 + i, i = 1, n)]
    a = -1
    a(2, :) = [(round * 1000 + rank * 100 + i, i = 1, n)]
    b = -2
    if (rank == 0) b(2, :) = [(round + i, i = 1, n)]
    c = -3
    call MPI_Startall(4, requests)
    call MPI_Waitall(4, requests, MPI_STATUSES_IGNORE)
    call check(all(1) == 2 * round * 100 + 12 .and. all(n) == 2 * round * 100 + 10 + 2 * n, 'sums')
    call check(c(1, 2) == round * 1000 + 2 .and. c(1, n + 2) == round * 1000 + 102, 'a gathered section')
    call check(c(2, 2) == -3 .and. a(1, 3) == -1, 'what lies between')
    call check(b(2, 5) == round + 5 .and. b(1, 5) == -2 .and. b(3, 5) == -2, 'a section from the root')
  end do
  do i = 1, 4
    call MPI_Request_free(requests(i))
    call check(requests(i) == MPI_REQUEST_NULL, 'freed')
  end do

  ! Partitions count from 0 in Fortran, too.
  many = 3
  call MPI_Psend_init(a(2, :), 4, many, MPI_INTEGER, other, 5, MPI_COMM_WORLD, MPI_INFO_NULL, requests(1))
  many = 6
  call MPI_Precv_init(b(1, :), 2, many, MPI_INTEGER, other, 5, MPI_COMM_WORLD, MPI_INFO_NULL, requests(2))
  do round = 1, 3
    a(2, :) = [(round * 1000 + rank * 100 + i, i = 1, n)]
    b = -2
    call MPI_Startall(2, requests(1:2))
    call MPI_Pready(2, requests(1))
    call MPI_Pready_range(0, 1, requests(1))
    call MPI_Pready_list(1, [3], requests(1))
    flag = .false.
    do while (.not. flag)
      call MPI_Parrived(requests(2), 1, flag)
    end do
    call check(b(1, n) == round * 1000 + other * 100 + n, 'a partition that has arrived')
    call MPI_Wait(requests(2), status)
    call check(status%MPI_SOURCE == other .and. status%MPI_TAG == 5, 'the status of a partitioned receive')
    call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
    call check(b(1, 1) == round * 1000 + other * 100 + 1 .and. b(2, 1) == -2, 'partitions in a section')
  end do
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
  call MPI_Pready(4, requests(1), ierr)
  call check(ierr /= MPI_SUCCESS, 'a partition that there is not')
  call MPI_Request_free(requests(1))
  call MPI_Request_free(requests(2))

  ! Partitions begin at multiples of one distance, which sections of two dimensions don't have.
  many = 1
  wrong = MPI_REQUEST_NULL
  call MPI_Psend_init(c(:, ::2), 4, many, MPI_INTEGER, other, 5, MPI_COMM_WORLD, MPI_INFO_NULL, wrong, ierr)
  call check(ierr /= MPI_SUCCESS, 'partitions of rows with gaps between them')
  call MPI_Isendrecv(one, n, MPI_INTEGER, other, 1, all, n, MPI_INTEGER, other, 1, MPI_COMM_WORLD, wrong)
  one(1) = one(1)
  call MPI_Wait(wrong, MPI_STATUS_IGNORE)
  call check(all(3) - one(3) == (other - rank) * 10, 'exchanged')
  call MPI_Finalize()
end program persistent

#include "check.inc"

! Buffers that only the root has (MPI-4.1 section 6.5): the others may pass an array that is not there, whose
! descriptor tells lengths and distances of anything.
! ranks: 3
! variants: shm
! build: own
! build: existing compiler=mpif90.mpich -DEXISTING
program no_buffer
  use mpi_f08
  implicit none
  integer, parameter :: n = 4
  integer :: rank, ranks, i
  integer, asynchronous :: mine(n)
  integer, target, asynchronous :: memory(200, 7)
  integer, pointer, asynchronous :: all(:, :)
  integer, allocatable :: counts(:), places(:)
  type(MPI_Request) :: request
  type(MPI_File) :: file
  type(MPI_Status) :: status
  character(len=40) :: name
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  mine = [(10 * rank + i, i = 1, n)]
  counts = [(n, i = 1, ranks)]
  places = [(n * (i - 1), i = 1, ranks)]

  call only_at_root(n, ranks)
  call MPI_Gather(mine, n, MPI_INTEGER, all, n, MPI_INTEGER, 0, MPI_COMM_WORLD)
  call gathered('gather')
  call only_at_root(n, ranks)
  call MPI_Gatherv(mine, n, MPI_INTEGER, all, counts, places, MPI_INTEGER, 0, MPI_COMM_WORLD)
  call gathered('gatherv')
  call only_at_root(n, ranks)
  call MPI_Igather(mine, n, MPI_INTEGER, all, n, MPI_INTEGER, 0, MPI_COMM_WORLD, request)
  call MPI_Wait(request, MPI_STATUS_IGNORE)
  call gathered('igather')

  call only_at_root(n, ranks)
  if (rank == 0) all = reshape([(i, i = 1, n * ranks)], [n, ranks])
  mine = -1
  call MPI_Scatter(all, n, MPI_INTEGER, mine, n, MPI_INTEGER, 0, MPI_COMM_WORLD)
  call check(all_are(mine, n * rank), 'scatter')
  mine = -1
  call MPI_Scatterv(all, counts, places, MPI_INTEGER, mine, n, MPI_INTEGER, 0, MPI_COMM_WORLD)
  call check(all_are(mine, n * rank), 'scatterv')

  mine = [(i, i = 1, n)]
  call only_at_root(n, 1)
  call MPI_Reduce(mine, all, n, MPI_INTEGER, MPI_MAX, 0, MPI_COMM_WORLD)
  if (rank == 0) call check(all_are(all(:, 1), 0), 'reduce')
  call only_at_root(n, 1)
  call MPI_Ireduce(mine, all, n, MPI_INTEGER, MPI_MAX, 0, MPI_COMM_WORLD, request)
  call MPI_Wait(request, MPI_STATUS_IGNORE)
  if (rank == 0) call check(all_are(all(:, 1), 0), 'ireduce')

  ! Nothing to write (section 14.4.1): a count of 0.
  call only_at_root(n, 1)
  if (rank == 0) all = 5
#ifdef EXISTING
  name = 'no_buffer.existing'
#else
  name = 'no_buffer.own'
#endif
  call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE + MPI_MODE_RDWR + MPI_MODE_DELETE_ON_CLOSE, &
                     MPI_INFO_NULL, file)
  call MPI_File_write_all(file, all, merge(n, 0, rank == 0), MPI_INTEGER, status)
  call MPI_Get_count(status, MPI_INTEGER, i)
  call check(i == merge(n, 0, rank == 0), 'write_all')
  call MPI_File_close(file)
  call MPI_Finalize()
contains
  ! The others' pointer has been to a section with gaps.
  subroutine only_at_root(rows, columns)
    integer, intent(in) :: rows, columns
    memory = -1
    all => memory(1:200:50, 1:7:3)
    nullify (all)
    if (rank == 0) all => memory(1:rows, 1:columns)
  end subroutine

  subroutine gathered(what)
    character(len=*), intent(in) :: what
    integer :: from
    if (rank /= 0) return
    do from = 0, ranks - 1
      call check(all_are(all(:, from + 1), 10 * from), what)
    end do
  end subroutine

  logical function all_are(found, base)
    integer, intent(in) :: found(n), base
    integer :: at
    all_are = .true.
    do at = 1, n
      all_are = all_are .and. found(at) == base + at
    end do
  end function

  subroutine check(good, what)
    logical, intent(in) :: good
    character(len=*), intent(in) :: what
    if (.not. good) then
      print '(2a)', 'wrong: ', what
      call MPI_Abort(MPI_COMM_WORLD, 3)
    end if
  end subroutine
end program no_buffer

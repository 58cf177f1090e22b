! Files in Fortran: handles, offsets of MPI_OFFSET_KIND, statuses and requests, compiled against ours, and an
! unmodified program of another library.
! ranks: 1 3
! variants: shm
! build: mpif -DMPIF
! build: mpi
! build: f08 -DF08
! build: existing compiler=mpif90.mpich
! build: existing_f08 compiler=mpif90.mpich -DF08
program files
#if defined(F08)
  use mpi_f08
  implicit none
  type(MPI_File) :: file, other
  type(MPI_Status) :: status
  type(MPI_Request) :: request
  type(MPI_Datatype) :: every, made, etype, filetype
  type(MPI_Info) :: info
  type(MPI_Group) :: group
#elif defined(MPIF)
  implicit none
  include 'mpif.h'
  integer :: file, other, status(MPI_STATUS_SIZE), request, every, made, etype, filetype, info, group
#else
  use mpi
  implicit none
  integer :: file, other, status(MPI_STATUS_SIZE), request, every, made, etype, filetype, info, group
#endif
  external :: check
  integer, parameter :: n = 8
  integer :: rank, ranks, ierr, i, amode, class, length, count
  integer :: put(n), got(n)
  integer(kind=MPI_OFFSET_KIND) :: offset, size, disp
  integer(kind=MPI_ADDRESS_KIND) :: lb, extent
  character(len=64) :: path
  character(len=MPI_MAX_DATAREP_STRING) :: rep
  character(len=MPI_MAX_ERROR_STRING) :: text
  logical :: flag

  call MPI_INIT(ierr)
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
  call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, ierr)
  if (rank == 0) then
    call system_clock(i)
    write (path, '(a,i0,a,i0)') '/tmp/weft-io-fortran-', i, '-', ranks
  end if
  call MPI_BCAST(path, len(path), MPI_CHARACTER, 0, MPI_COMM_WORLD, ierr)
  ! Blanks at the end don't belong to the name.
  call MPI_FILE_OPEN(MPI_COMM_WORLD, path, MPI_MODE_RDWR + MPI_MODE_CREATE + MPI_MODE_DELETE_ON_CLOSE, &
                     MPI_INFO_NULL, file, ierr)
  call check(ierr == MPI_SUCCESS, 'open')
  call check(file /= MPI_FILE_NULL, 'handle')
  call MPI_FILE_GET_AMODE(file, amode, ierr)
  call check(amode == MPI_MODE_RDWR + MPI_MODE_CREATE + MPI_MODE_DELETE_ON_CLOSE, 'amode')
  call MPI_FILE_GET_GROUP(file, group, ierr)
  call MPI_GROUP_SIZE(group, i, ierr)
  call check(i == ranks, 'group')
  call MPI_GROUP_FREE(group, ierr)
  do i = 1, n
    put(i) = 100 * rank + i
  end do

  ! Offsets beyond 2^31.
  disp = 3000000000_MPI_OFFSET_KIND
  lb = 0
  extent = 4 * ranks
  call MPI_TYPE_CREATE_RESIZED(MPI_INTEGER, lb, extent, every, ierr)
  call MPI_TYPE_COMMIT(every, ierr)
  call MPI_FILE_SET_VIEW(file, disp + 4 * rank, MPI_INTEGER, every, 'native', MPI_INFO_NULL, ierr)
  call check(ierr == MPI_SUCCESS, 'set_view')
  call MPI_FILE_GET_VIEW(file, offset, etype, filetype, rep, ierr)
  call check(offset == disp + 4 * rank .and. etype == MPI_INTEGER .and. rep == 'native', 'get_view')
  call MPI_TYPE_FREE(filetype, ierr)
  call MPI_FILE_WRITE_ALL(file, put, n, MPI_INTEGER, status, ierr)
  call check(ierr == MPI_SUCCESS, 'write_all')
  call MPI_GET_COUNT(status, MPI_INTEGER, count, ierr)
  call check(count == n, 'count')
  call MPI_FILE_GET_POSITION(file, offset, ierr)
  call check(offset == n, 'position')
  offset = 2
  call MPI_FILE_GET_BYTE_OFFSET(file, offset, size, ierr)
  call check(size == disp + 4 * rank + 8 * ranks, 'byte offset')
  got = 0
  offset = 0
  call MPI_FILE_READ_AT_ALL(file, offset, got, n, MPI_INTEGER, status, ierr)
  call check(all(got == put), 'read_at_all')
  got = 0
  call MPI_FILE_IREAD_AT(file, offset, got, n, MPI_INTEGER, request, ierr)
  call MPI_WAIT(request, status, ierr)
  call check(all(got == put), 'iread_at')
  call MPI_FILE_WRITE_AT_ALL_BEGIN(file, offset, put, n, MPI_INTEGER, ierr)
  call MPI_FILE_WRITE_AT_ALL_END(file, put, status, ierr)
  call check(ierr == MPI_SUCCESS, 'split')
  call MPI_BARRIER(MPI_COMM_WORLD, ierr)
  call MPI_FILE_GET_SIZE(file, size, ierr)
  call check(size == disp + 4 * ranks * n, 'size')
  call MPI_FILE_SET_ATOMICITY(file, .true., ierr)
  call MPI_FILE_GET_ATOMICITY(file, flag, ierr)
  call check(flag, 'atomicity')

  ! The shared pointer.
  disp = 0
  call MPI_FILE_SET_VIEW(file, disp, MPI_INTEGER, MPI_INTEGER, 'external32', MPI_INFO_NULL, ierr)
  call MPI_FILE_WRITE_ORDERED(file, put, n, MPI_INTEGER, status, ierr)
  call MPI_FILE_GET_POSITION_SHARED(file, offset, ierr)
  call check(offset == ranks * n, 'shared position')
  call MPI_FILE_SEEK(file, int(rank * n, MPI_OFFSET_KIND), MPI_SEEK_SET, ierr)
  got = 0
  call MPI_FILE_READ(file, got, n, MPI_INTEGER, status, ierr)
  call check(all(got == put), 'external32')

  call MPI_FILE_GET_INFO(file, info, ierr)
  call MPI_INFO_GET(info, 'cb_buffer_size', len(path), path, flag, ierr)
  call check(flag, 'info')
  call MPI_INFO_FREE(info, ierr)

  ! Errors are returned.
  call MPI_FILE_OPEN(MPI_COMM_WORLD, '/nowhere/at all', MPI_MODE_RDONLY, MPI_INFO_NULL, other, ierr)
  call MPI_ERROR_CLASS(ierr, class, i)
  call check(class == MPI_ERR_NO_SUCH_FILE, 'error class')
  call MPI_ERROR_STRING(ierr, text, length, i)
  call check(index(text, '/nowhere/at all') > 0, 'error text')
  call MPI_FILE_CLOSE(file, ierr)
  call check(ierr == MPI_SUCCESS, 'close')
  call check(file == MPI_FILE_NULL, 'null')
  call MPI_TYPE_FREE(every, ierr)
  made = every
  call MPI_FINALIZE(ierr)
end program files
include 'check.inc'

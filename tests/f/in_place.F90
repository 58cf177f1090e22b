! MPI_IN_PLACE of Fortran, which is a variable there, where it is not allowed: an error of class MPI_ERR_BUFFER, as in C.
! Where nothing is moved it is not looked at.
! ranks: 1
! variants: shm
! build: mpif -DMPIF
! build: mpi
! build: f08 -DF08
#ifdef F08
#define WIN type(MPI_Win)
#define FILE type(MPI_File)
#define REQUEST type(MPI_Request)
#else
#define WIN integer
#define FILE integer
#define REQUEST integer
#endif
program in_place
#ifdef MPIF
  implicit none
  include 'mpif.h'
#else
#ifdef F08
  use mpi_f08
#else
  use mpi
#endif
  implicit none
#endif
  external :: check
  integer(kind=MPI_ADDRESS_KIND), parameter :: none = 0, eight = 8
  integer(kind=MPI_OFFSET_KIND), parameter :: start = 0
  integer :: ierr, value(2), position
  WIN :: window
  FILE :: handle
  REQUEST :: later
  call MPI_INIT(ierr)
  call MPI_COMM_SET_ERRHANDLER(MPI_COMM_WORLD, MPI_ERRORS_RETURN, ierr)
  value = 4
  position = 0
  call MPI_SEND(MPI_IN_PLACE, 1, MPI_INTEGER, 0, 1, MPI_COMM_WORLD, ierr)
  call refused('send', MPI_ERR_BUFFER)
  call MPI_ISEND(MPI_IN_PLACE, 1, MPI_INTEGER, 0, 1, MPI_COMM_WORLD, later, ierr)
  call refused('isend', MPI_ERR_BUFFER)
  call MPI_RECV(MPI_IN_PLACE, 1, MPI_INTEGER, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  call refused('recv', MPI_ERR_BUFFER)
  call MPI_IRECV(MPI_IN_PLACE, 1, MPI_INTEGER, 0, 1, MPI_COMM_WORLD, later, ierr)
  call refused('irecv', MPI_ERR_BUFFER)
  call MPI_SENDRECV_REPLACE(MPI_IN_PLACE, 1, MPI_INTEGER, 0, 1, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  call refused('sendrecv_replace', MPI_ERR_BUFFER)
  call MPI_RECV_INIT(MPI_IN_PLACE, 1, MPI_INTEGER, 0, 1, MPI_COMM_WORLD, later, ierr)
  call refused('recv_init', MPI_ERR_BUFFER)
  call MPI_PACK(MPI_IN_PLACE, 1, MPI_INTEGER, value, 8, position, MPI_COMM_WORLD, ierr)
  call refused('pack', MPI_ERR_BUFFER)
  call MPI_UNPACK(value, 8, position, MPI_IN_PLACE, 1, MPI_INTEGER, MPI_COMM_WORLD, ierr)
  call refused('unpack', MPI_ERR_BUFFER)
  call MPI_BCAST(MPI_IN_PLACE, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
  call refused('bcast', MPI_ERR_BUFFER)
  call MPI_ALLREDUCE(value, MPI_IN_PLACE, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  call refused('allreduce', MPI_ERR_BUFFER)
  call MPI_REDUCE_LOCAL(value, MPI_IN_PLACE, 1, MPI_INTEGER, MPI_SUM, ierr)
  call refused('reduce_local', MPI_ERR_BUFFER)
  call MPI_BUFFER_ATTACH(MPI_IN_PLACE, 1000, ierr)
  call refused('buffer_attach', MPI_ERR_BUFFER)
  call MPI_WIN_CREATE(MPI_IN_PLACE, eight, 1, MPI_INFO_NULL, MPI_COMM_WORLD, window, ierr)
  call refused('win_create', MPI_ERR_BASE)
  call MPI_WIN_CREATE(value, eight, 4, MPI_INFO_NULL, MPI_COMM_WORLD, window, ierr)
  call check(ierr == MPI_SUCCESS, 'window')
  call MPI_WIN_SET_ERRHANDLER(window, MPI_ERRORS_RETURN, ierr)
  call MPI_WIN_FENCE(0, window, ierr)
  call MPI_PUT(MPI_IN_PLACE, 1, MPI_INTEGER, 0, none, 1, MPI_INTEGER, window, ierr)
  call refused('put', MPI_ERR_BUFFER)
  call MPI_GET(MPI_IN_PLACE, 1, MPI_INTEGER, 0, none, 1, MPI_INTEGER, window, ierr)
  call refused('get', MPI_ERR_BUFFER)
  call MPI_ACCUMULATE(MPI_IN_PLACE, 1, MPI_INTEGER, 0, none, 1, MPI_INTEGER, MPI_SUM, window, ierr)
  call refused('accumulate', MPI_ERR_BUFFER)
  call MPI_WIN_FENCE(0, window, ierr)
  call MPI_WIN_FREE(window, ierr)
  call MPI_FILE_OPEN(MPI_COMM_SELF, 'in_place_fortran', MPI_MODE_CREATE + MPI_MODE_RDWR + &
    MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, handle, ierr)
  call check(ierr == MPI_SUCCESS, 'file')
  call MPI_FILE_WRITE_AT(handle, start, MPI_IN_PLACE, 1, MPI_INTEGER, MPI_STATUS_IGNORE, ierr)
  call refused('file_write_at', MPI_ERR_BUFFER)
  call MPI_FILE_READ_AT(handle, start, MPI_IN_PLACE, 1, MPI_INTEGER, MPI_STATUS_IGNORE, ierr)
  call refused('file_read_at', MPI_ERR_BUFFER)
  call MPI_FILE_CLOSE(handle, ierr)
  call MPI_SEND(MPI_IN_PLACE, 1, MPI_INTEGER, MPI_PROC_NULL, 1, MPI_COMM_WORLD, ierr)
  call check(ierr == MPI_SUCCESS, 'to nobody')
  call MPI_ALLREDUCE(MPI_IN_PLACE, value, 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  call check(ierr == MPI_SUCCESS .and. all(value == 4), 'where it is allowed')
  call MPI_FINALIZE(ierr)
contains
  subroutine refused(what, wanted)
    character(len=*), intent(in) :: what
    integer, intent(in) :: wanted
    integer :: class, length, error
    character(len=MPI_MAX_ERROR_STRING) :: text
    call check(ierr /= MPI_SUCCESS, what)
    call MPI_ERROR_CLASS(ierr, class, error)
    call MPI_ERROR_STRING(ierr, text, length, error)
    call check(class == wanted .and. index(text, 'MPI_IN_PLACE, which') > 0, what)
  end subroutine
end program
include 'check.inc'

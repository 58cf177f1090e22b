! Error handlers of the program's in Fortran (MPI-4.1 section 9.3): each gets the handle of its object as Fortran has it,
! also that of a file, which is another in C.
! ranks: 1 2
! variants: shm
! build: mpif -DMPIF
! build: mpi
! build: f08 -DF08
! build: abi -abi=standard
! build: abi_f08 -abi=standard -DF08
module told
#if defined(F08)
  use mpi_f08
  implicit none
  type(MPI_Comm) :: comm
  type(MPI_Win) :: win
  type(MPI_File) :: file
  type(MPI_Session) :: session
#else
  implicit none
  integer :: comm, win, file, session
#endif
  integer :: calls = 0, last = 0
end module

program error_handlers
#if defined(F08)
  use told
  implicit none
  type(MPI_Errhandler) :: handler, same
  type(MPI_Win) :: window
  type(MPI_File) :: opened, none
  type(MPI_Session) :: here
#elif defined(MPIF)
  use told
  implicit none
  include 'mpif.h'
  integer :: handler, same, window, opened, none, here
#else
  use mpi
  use told
  implicit none
  integer :: handler, same, window, opened, none, here
#endif
#ifndef F08
  external :: on_comm, on_win, on_file, on_session
#endif
  external :: check
  integer :: rank, ierr, class, code, data(4)
  integer(kind=MPI_ADDRESS_KIND) :: bytes
  integer(kind=MPI_OFFSET_KIND) :: before
  character(len=64) :: path
  call MPI_INIT(ierr)
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)

  call MPI_COMM_CREATE_ERRHANDLER(on_comm, handler, ierr)
  call MPI_COMM_SET_ERRHANDLER(MPI_COMM_WORLD, handler, ierr)
  call MPI_COMM_CALL_ERRHANDLER(MPI_COMM_WORLD, MPI_ERR_OTHER, ierr)
  call check(ierr == MPI_SUCCESS .and. calls == 1 .and. last == MPI_ERR_OTHER, 'comm')
  call check(comm == MPI_COMM_WORLD, 'handle of comm')
  call MPI_ERRHANDLER_FREE(handler, ierr)

  call MPI_WIN_CREATE_ERRHANDLER(on_win, handler, ierr)
  bytes = 16
  call MPI_WIN_CREATE(data, bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, window, ierr)
  call MPI_WIN_SET_ERRHANDLER(window, handler, ierr)
  call MPI_WIN_CALL_ERRHANDLER(window, MPI_ERR_OTHER, ierr)
  call check(ierr == MPI_SUCCESS .and. calls == 2 .and. win == window, 'win')
  call MPI_ERRHANDLER_FREE(handler, ierr)
  call MPI_WIN_FREE(window, ierr)

  call MPI_FILE_CREATE_ERRHANDLER(on_file, handler, ierr)
  call check(ierr == MPI_SUCCESS, 'create')
  call system_clock(class)
  write (path, '(a,i0,a,i0)') '/tmp/weft-error-handlers-', class, '-', rank
  call MPI_FILE_OPEN(MPI_COMM_SELF, path, MPI_MODE_RDWR + MPI_MODE_CREATE + MPI_MODE_DELETE_ON_CLOSE, &
                     MPI_INFO_NULL, opened, ierr)
  call check(ierr == MPI_SUCCESS, 'open')
  call MPI_FILE_SET_ERRHANDLER(opened, handler, ierr)
  call MPI_FILE_GET_ERRHANDLER(opened, same, ierr)
  call check(same == handler, 'same handler')
  call MPI_ERRHANDLER_FREE(same, ierr)
  call MPI_FILE_CALL_ERRHANDLER(opened, MPI_ERR_OTHER, ierr)
  call check(ierr == MPI_SUCCESS .and. calls == 3 .and. last == MPI_ERR_OTHER, 'file')
  call check(file == opened, 'handle of file')
  before = -1
  call MPI_FILE_READ_AT(opened, before, data, 1, MPI_INTEGER, MPI_STATUS_IGNORE, ierr)
  call check(calls == 4 .and. last == ierr .and. file == opened, 'error of a file')
  call MPI_ERROR_CLASS(ierr, class, code)
  call check(class == MPI_ERR_ARG, 'class')
  ! Also where no file is open.
  call MPI_FILE_SET_ERRHANDLER(MPI_FILE_NULL, handler, ierr)
  call MPI_FILE_OPEN(MPI_COMM_SELF, '/nowhere/at all', MPI_MODE_RDONLY, MPI_INFO_NULL, none, ierr)
  call check(calls == 5 .and. last == ierr .and. file == MPI_FILE_NULL, 'error without a file')
  call MPI_ERROR_CLASS(ierr, class, code)
  call check(class == MPI_ERR_NO_SUCH_FILE, 'class without a file')
  call MPI_ERRHANDLER_FREE(handler, ierr)
  call MPI_FILE_CLOSE(opened, ierr)

  call MPI_SESSION_CREATE_ERRHANDLER(on_session, handler, ierr)
  call MPI_SESSION_INIT(MPI_INFO_NULL, handler, here, ierr)
  call MPI_SESSION_CALL_ERRHANDLER(here, MPI_ERR_OTHER, ierr)
  call check(ierr == MPI_SUCCESS .and. calls == 6 .and. session == here, 'session')
  call MPI_ERRHANDLER_FREE(handler, ierr)
  call MPI_SESSION_FINALIZE(here, ierr)
  call MPI_FINALIZE(ierr)
#if defined(F08)
contains

  subroutine on_comm(object, code)
    type(MPI_Comm) :: object
    integer :: code
    comm = object
    last = code
    calls = calls + 1
  end subroutine

  subroutine on_win(object, code)
    type(MPI_Win) :: object
    integer :: code
    win = object
    last = code
    calls = calls + 1
  end subroutine

  subroutine on_file(object, code)
    type(MPI_File) :: object
    integer :: code
    file = object
    last = code
    calls = calls + 1
  end subroutine

  subroutine on_session(object, code)
    type(MPI_Session) :: object
    integer :: code
    session = object
    last = code
    calls = calls + 1
  end subroutine
end program error_handlers
#else
end program error_handlers

subroutine on_comm(object, code)
  use told
  implicit none
  integer :: object, code
  comm = object
  last = code
  calls = calls + 1
end subroutine

subroutine on_win(object, code)
  use told
  implicit none
  integer :: object, code
  win = object
  last = code
  calls = calls + 1
end subroutine

subroutine on_file(object, code)
  use told
  implicit none
  integer :: object, code
  file = object
  last = code
  calls = calls + 1
end subroutine

subroutine on_session(object, code)
  use told
  implicit none
  integer :: object, code
  session = object
  last = code
  calls = calls + 1
end subroutine
#endif
include 'check.inc'

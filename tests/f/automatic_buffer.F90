! MPI_BUFFER_AUTOMATIC in Fortran (MPI-4.1 section 3.6): buffered sends without a buffer of the program's, of the process, a
! communicator and a session; in mpi_f08 detaching gives its address.
! ranks: 1 2
! variants: shm
! build: f08 -DF08
! build: mpi -DMODULE_MPI
! build: mpif
program automatic_buffer
  use, intrinsic :: iso_c_binding
#if defined(F08)
  use mpi_f08
#elif defined(MODULE_MPI)
  use mpi
#endif
  implicit none
#if !defined(F08) && !defined(MODULE_MPI)
  include 'mpif.h'
#endif
#if defined(F08)
  type(MPI_Session) :: session
  type(MPI_Comm) :: comm
  type(c_ptr) :: given
  integer(kind=MPI_COUNT_KIND) :: large
#else
  integer :: session, comm, given
#endif
  type(c_ptr) :: automatic
  integer :: code, size
  integer, target :: own(10000)

  call MPI_Init(code)
  ! The standard wants its address to be known.
  automatic = c_loc(MPI_BUFFER_AUTOMATIC)
  call expect(c_associated(automatic), 'address')

  call MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0, code)
  call expect(code == MPI_SUCCESS, 'attach')
  call send_all(MPI_COMM_WORLD)
  call MPI_Buffer_flush(code)
  call expect(code == MPI_SUCCESS, 'flush')
  call MPI_Buffer_detach(given, size, code)
  call gives(automatic, 'detach')

  call MPI_Comm_dup(MPI_COMM_WORLD, comm, code)
  call MPI_Comm_attach_buffer(comm, MPI_BUFFER_AUTOMATIC, 0, code)
  call expect(code == MPI_SUCCESS, 'attach to a communicator')
  call send_all(comm)
  call MPI_Comm_detach_buffer(comm, given, size, code)
  call gives(automatic, 'detach from a communicator')
  call MPI_Comm_free(comm, code)

  call MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, session, code)
  call MPI_Session_attach_buffer(session, MPI_BUFFER_AUTOMATIC, 0, code)
  call expect(code == MPI_SUCCESS, 'attach to a session')
  call MPI_Session_detach_buffer(session, given, size, code)
  call gives(automatic, 'detach from a session')
#if defined(F08)
  call MPI_Session_attach_buffer(session, MPI_BUFFER_AUTOMATIC, 0_MPI_COUNT_KIND)
  call MPI_Session_detach_buffer(session, given, large)
  call gives(automatic, 'large counts')
#endif
  call MPI_Session_finalize(session, code)

  ! A buffer of the program's is given back as it was.
  call MPI_Buffer_attach(own, 40000, code)
  call MPI_Buffer_detach(given, size, code)
  call expect(size == 40000, 'size')
  call gives(c_loc(own), 'own buffer')

  call MPI_Finalize(code)
contains
  ! More to the next rank than any buffer of the library's for short messages has room for.
  subroutine send_all(comm)
#if defined(F08)
    type(MPI_Comm), intent(in) :: comm
#else
    integer, intent(in) :: comm
#endif
    integer, parameter :: many = 20, length = 100000
    integer, allocatable :: words(:)
    integer :: rank, ranks, next, i
    call MPI_Comm_rank(comm, rank, code)
    call MPI_Comm_size(comm, ranks, code)
    next = mod(rank + 1, ranks)
    allocate (words(length))
    do i = 1, many
      words = i
      call MPI_Bsend(words, length, MPI_INTEGER, next, i, comm, code)
      call expect(code == MPI_SUCCESS, 'send')
    end do
    do i = 1, many
      words = 0
      call MPI_Recv(words, length, MPI_INTEGER, mod(rank + ranks - 1, ranks), i, comm, &
                    MPI_STATUS_IGNORE, code)
      call expect(all(words == i), 'data')
    end do
  end subroutine

  ! Only mpi_f08 gives the address.
  subroutine gives(address, what)
    type(c_ptr), intent(in) :: address
    character(len=*), intent(in) :: what
    call expect(code == MPI_SUCCESS, what)
#if defined(F08)
    call expect(c_associated(given, address), what)
#else
    call expect(c_associated(address), what)
#endif
  end subroutine

  subroutine expect(good, what)
    logical, intent(in) :: good
    character(len=*), intent(in) :: what
    integer :: error
    if (.not. good) then
      print '(2a)', 'wrong: ', what
      call MPI_Abort(MPI_COMM_WORLD, 3, error)
    end if
  end subroutine
end program

! A program's own routines under the specific names of the standard (MPI-5.0 sections 15.2.7 and 19.1.5) get the calls of
! module mpi_f08.
! ranks: 1
! variants: shm
! cflags: -fcheck=no-array-temps
! build: own
! build: abi -abi=standard
! build: gfortran-11 -fc=gfortran-11 -DCOPIES
#ifdef COPIES
#define TS(name) name/**/_f08
#define BUFFER type(*), dimension(*)
#else
#define TS(name) name/**/_f08ts
#define BUFFER type(*), dimension(..)
#endif
module counted
  implicit none
  integer :: sends = 0, receives = 0, long = 0
end module

subroutine TS(MPI_Send)(buf, count, datatype, dest, tag, comm, ierror)
  use mpi_f08, only: MPI_Datatype, MPI_Comm, PMPI_Send
  use counted
#ifdef COPIES
  !GCC$ ATTRIBUTES NO_ARG_CHECK :: buf
#endif
  BUFFER, intent(in) :: buf
  integer, intent(in) :: count, dest, tag
  type(MPI_Datatype), intent(in) :: datatype
  type(MPI_Comm), intent(in) :: comm
  integer, optional, intent(out) :: ierror
  sends = sends + 1
  call PMPI_Send(buf, count, datatype, dest, tag, comm, ierror)
end subroutine

subroutine TS(MPI_Send_c)(buf, count, datatype, dest, tag, comm, ierror)
  use mpi_f08, only: MPI_Datatype, MPI_Comm, MPI_COUNT_KIND, PMPI_Send
  use counted
#ifdef COPIES
  !GCC$ ATTRIBUTES NO_ARG_CHECK :: buf
#endif
  BUFFER, intent(in) :: buf
  integer(kind=MPI_COUNT_KIND), intent(in) :: count
  integer, intent(in) :: dest, tag
  type(MPI_Datatype), intent(in) :: datatype
  type(MPI_Comm), intent(in) :: comm
  integer, optional, intent(out) :: ierror
  long = long + 1
  call PMPI_Send(buf, count, datatype, dest, tag, comm, ierror)
end subroutine

subroutine TS(MPI_Irecv)(buf, count, datatype, source, tag, comm, request, ierror)
  use mpi_f08, only: MPI_Datatype, MPI_Comm, MPI_Request, PMPI_Irecv
  use counted
#ifdef COPIES
  !GCC$ ATTRIBUTES NO_ARG_CHECK :: buf
#endif
  BUFFER, asynchronous :: buf
  integer, intent(in) :: count, source, tag
  type(MPI_Datatype), intent(in) :: datatype
  type(MPI_Comm), intent(in) :: comm
  type(MPI_Request), intent(out) :: request
  integer, optional, intent(out) :: ierror
  receives = receives + 1
  call PMPI_Irecv(buf, count, datatype, source, tag, comm, request, ierror)
end subroutine

program f08ts_profiling
  use mpi_f08
  use counted
  implicit none
  integer, asynchronous :: got(8)
  integer :: a(0:3), code
  type(MPI_Request) :: requests(2)
  call MPI_Init()
  a = [1, 2, 3, 4]
  got = 0
  call MPI_Irecv(got(1:4), 4, MPI_INTEGER, 0, 1, MPI_COMM_SELF, requests(1))
  call MPI_Irecv(got(5:8), 4, MPI_INTEGER, 0, 2, MPI_COMM_SELF, requests(2), code)
  call MPI_Send(a, 4, MPI_INTEGER, 0, 1, MPI_COMM_SELF)
  call MPI_Send(a(3:0:-1), 4_MPI_COUNT_KIND, MPI_INTEGER, 0, 2, MPI_COMM_SELF, code)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  call check(all(got == [1, 2, 3, 4, 4, 3, 2, 1]), 'what arrives')
  call check(sends == 1 .and. long == 1 .and. receives == 2, 'the calls')
  call PMPI_Sendrecv(a, 4, MPI_INTEGER, 0, 1, got, 4, MPI_INTEGER, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE)
  call check(sends == 1, 'others')
  call MPI_Finalize()
end program

#include "check.inc"

! Arrays of handles, whose lengths follow from counts or from communicators: requests, datatypes of exchanges, of structs
! and of neighbours; with wrong handles, too.
! ranks: 2 3
! variants: shm
program handle_arrays
  use mpi
  implicit none
  external :: check
  integer :: rank, size, ierr, class, i, comm, cart, code
  integer :: requests(70), statuses(MPI_STATUS_SIZE, 70), send(70), got(70), wrong(1)
  integer, allocatable :: types(:), counts(:), places(:)
  integer :: made, integers(8), datatypes(2), int_count, address_count, type_count, combiner, outcount, indices(70)
  integer(kind=MPI_ADDRESS_KIND) :: addresses(2)
  logical :: flag

  call MPI_Init(ierr)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
  call MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN, ierr)
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, ierr)
  call MPI_Comm_rank(comm, rank, ierr)
  call MPI_Comm_size(comm, size, ierr)

  ! Requests: more than a small number, some of them null.
  do i = 1, 35
    call MPI_Irecv(got(i), 1, MPI_INTEGER, mod(rank + size - 1, size), i, comm, requests(2 * i - 1), ierr)
    send(i) = 100 * rank + i
    call MPI_Isend(send(i), 1, MPI_INTEGER, mod(rank + 1, size), i, comm, requests(2 * i), ierr)
  end do
  call MPI_Wait(requests(7), MPI_STATUS_IGNORE, ierr)
  call check(requests(7) == MPI_REQUEST_NULL, 'a request is null afterwards')
  call MPI_Waitall(70, requests, statuses, ierr)
  call check(ierr == MPI_SUCCESS .and. all(requests == MPI_REQUEST_NULL), 'requests are null afterwards')
  do i = 1, 35
    call check(got(i) == 100 * mod(rank + size - 1, size) + i, 'data')
    if (i /= 4) call check(statuses(MPI_TAG, 2 * i - 1) == i, 'statuses')
  end do
  call MPI_Testall(70, requests, flag, statuses, ierr)
  call check(flag, 'all null requests are complete')
  call MPI_Waitsome(70, requests, outcount, indices, statuses, ierr)
  call check(outcount == MPI_UNDEFINED, 'nothing to wait for')
  wrong = 12345
  call MPI_Waitall(1, wrong, statuses, ierr)
  call MPI_Error_class(ierr, class, code)
  call check(class == MPI_ERR_REQUEST .or. class == MPI_ERR_IN_STATUS, 'a wrong request')

  ! Exchanges: as many types as there are ranks.
  allocate(types(size), counts(size), places(size))
  types = MPI_INTEGER
  counts = 1
  places = [(4 * (i - 1), i = 1, size)]
  send(1:size) = [(10 * rank + i, i = 1, size)]
  got = -1
  call MPI_Alltoallw(send, counts, places, types, got, counts, places, types, comm, ierr)
  call check(all(got(1:size) == [(10 * (i - 1) + rank + 1, i = 1, size)]), 'alltoallw')
  got = -1
  call MPI_Ialltoallw(send, counts, places, types, got, counts, places, types, comm, requests(1), ierr)
  call MPI_Wait(requests(1), MPI_STATUS_IGNORE, ierr)
  call check(all(got(1:size) == [(10 * (i - 1) + rank + 1, i = 1, size)]), 'ialltoallw')
  got(1:size) = send(1:size)
  call MPI_Alltoallw(MPI_IN_PLACE, counts, places, types, got, counts, places, types, comm, ierr)
  call check(all(got(1:size) == [(10 * (i - 1) + rank + 1, i = 1, size)]), 'alltoallw in place')
  types(size) = MPI_DATATYPE_NULL
  call MPI_Alltoallw(send, counts, places, types, got, counts, places, types, comm, ierr)
  call MPI_Error_class(ierr, class, code)
  call check(class == MPI_ERR_TYPE, 'alltoallw with a null datatype')

  ! Neighbours: two in a ring of one dimension.
  call MPI_Cart_create(comm, 1, [size], [.true.], .false., cart, ierr)
  got = -1
  call MPI_Neighbor_alltoallw(send, [1, 1], [0_MPI_ADDRESS_KIND, 4_MPI_ADDRESS_KIND], [MPI_INTEGER, MPI_INTEGER], &
    got, [1, 1], [0_MPI_ADDRESS_KIND, 4_MPI_ADDRESS_KIND], [MPI_INTEGER, MPI_INTEGER], cart, ierr)
  call check(ierr == MPI_SUCCESS, 'neighbor_alltoallw')
  call check(sum(got(1:2)) == 3 + 10 * (mod(rank + 1, size) + mod(rank + size - 1, size)), 'of neighbours')
  call MPI_Comm_free(cart, ierr)
  call check(cart == MPI_COMM_NULL, 'a communicator is null afterwards')

  ! Datatypes in structs, and back.
  call MPI_Type_create_struct(2, [1, 2], [0_MPI_ADDRESS_KIND, 8_MPI_ADDRESS_KIND], [MPI_REAL, MPI_INTEGER8], made, ierr)
  call MPI_Type_get_envelope(made, int_count, address_count, type_count, combiner, ierr)
  call check(combiner == MPI_COMBINER_STRUCT .and. type_count == 2, 'envelope')
  call MPI_Type_get_contents(made, 8, 2, 2, integers, addresses, datatypes, ierr)
  call check(datatypes(1) == MPI_REAL .and. datatypes(2) == MPI_INTEGER8, 'contents')
  call MPI_Type_free(made, ierr)
  call check(made == MPI_DATATYPE_NULL, 'a datatype is null afterwards')
  call MPI_Comm_free(comm, ierr)
  call MPI_Finalize(ierr)
end program
include 'check.inc'

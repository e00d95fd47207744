// UCX itself: how it is configured, its contexts, and what it says of failures of its own.
#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <string>

namespace hostnccl {

// The process's context for data over this network device ("lo"), made with the first communicator
// that uses it and gone with the last. Where the user has set UCX_NET_DEVICES, or there is RDMA
// hardware, UCX chooses its devices.
std::shared_ptr<ucp_context> ucx_context(const std::string& device);

// Throws unless status is UCS_OK; says what UCX complained of last on this thread.
void check_ucx(ucs_status_t status, const std::string& what);

// An assertion of UCX's ends the process. On a thread in this scope it throws a Failure in place of
// that, through UCX's own functions: what UCX had in hand stays as it was, locks included. From
// then on the thread's UCX is lost: its objects are neither used nor destroyed. What UCX asserts on
// a thread of its own, as it lets a connection in, still ends the process, and so does what it
// asserts where the program had loaded UCX before this library.
class UcxFailuresThrow {
 public:
  UcxFailuresThrow();
  ~UcxFailuresThrow();
  UcxFailuresThrow(const UcxFailuresThrow&) = delete;
  UcxFailuresThrow& operator=(const UcxFailuresThrow&) = delete;
};
bool ucx_is_lost();  // on this thread
// Holds an object that a lost UCX may still refer to, for as long as the process lives.
void keep_for_lost_ucx(std::shared_ptr<void> object);

}  // namespace hostnccl

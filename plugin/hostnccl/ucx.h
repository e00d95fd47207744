// UCX itself: how it is configured, and the one context of the process.
#ifndef HOSTNCCL_UCX_H_
#define HOSTNCCL_UCX_H_

#include <ucp/api/ucp.h>

#include <memory>
#include <string>

namespace hostnccl {

// Made with the first communicator, gone with the last.
std::shared_ptr<ucp_context> UcxContext();

// Throws unless status is UCS_OK.
void CheckUcx(ucs_status_t status, const std::string& what);

}  // namespace hostnccl

#endif  // HOSTNCCL_UCX_H_

// UCX itself: how it is configured, and the one context of the process.
#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <string>

namespace hostnccl {

// Made with the first communicator, gone with the last.
std::shared_ptr<ucp_context> ucx_context();

// Throws unless status is UCS_OK.
void check_ucx(ucs_status_t status, const std::string& what);

}  // namespace hostnccl

// Signatures of NCCL's collectives, by the form that nccl_collectives.inc gives them, as macros:
// the parameters before communicator and stream, their names as arguments, and the same completed
// to send, recv, count, datatype, op, root.
#pragma once

#define NCCL_PARAMETERS_Plain const void *send, void *recv, size_t count, ncclDataType_t datatype
#define NCCL_PARAMETERS_Op NCCL_PARAMETERS_Plain, ncclRedOp_t op
#define NCCL_PARAMETERS_Root NCCL_PARAMETERS_Plain, int root
#define NCCL_PARAMETERS_OpRoot NCCL_PARAMETERS_Plain, ncclRedOp_t op, int root
#define NCCL_PARAMETERS_Send const void *send, size_t count, ncclDataType_t datatype, int root
#define NCCL_PARAMETERS_Recv void *recv, size_t count, ncclDataType_t datatype, int root

#define NCCL_ARGUMENTS_Plain send, recv, count, datatype
#define NCCL_ARGUMENTS_Op send, recv, count, datatype, op
#define NCCL_ARGUMENTS_Root send, recv, count, datatype, root
#define NCCL_ARGUMENTS_OpRoot send, recv, count, datatype, op, root
#define NCCL_ARGUMENTS_Send send, count, datatype, root
#define NCCL_ARGUMENTS_Recv recv, count, datatype, root

#define NCCL_ALL_ARGUMENTS_Plain send, recv, count, datatype, ncclSum, 0
#define NCCL_ALL_ARGUMENTS_Op send, recv, count, datatype, op, 0
#define NCCL_ALL_ARGUMENTS_Root send, recv, count, datatype, ncclSum, root
#define NCCL_ALL_ARGUMENTS_OpRoot send, recv, count, datatype, op, root
#define NCCL_ALL_ARGUMENTS_Send send, nullptr, count, datatype, ncclSum, root
#define NCCL_ALL_ARGUMENTS_Recv nullptr, recv, count, datatype, ncclSum, root

// The collectives of torch that are collectives of NCCL's.
#include <torch/csrc/distributed/c10d/Utils.hpp>
#include <utility>

#include "call_group.h"
#include "process_group.h"
#include "tensors.h"
#include "types.h"

namespace torch_hostnccl {
namespace {

using c10d::OpType;

size_t count_of(const at::Tensor& tensor) { return static_cast<size_t>(tensor.numel()); }

void all_reduce_call(const at::Tensor& tensor, const c10d::ReduceOp& op, ncclComm_t comm,
                     cudaStream_t stream) {
  const auto type = tensor.scalar_type();
  check(ncclAllReduce(tensor.data_ptr(), tensor.data_ptr(), count_of(tensor), data_type(type),
                      Operator(op, type, comm), comm, stream),
        "ncclAllReduce");
}

void all_gather_call(const at::Tensor& output, const at::Tensor& input, ncclComm_t comm,
                     cudaStream_t stream) {
  check(ncclAllGather(input.data_ptr(), output.data_ptr(), count_of(input),
                      data_type(input.scalar_type()), comm, stream),
        "ncclAllGather");
}

void reduce_scatter_call(const at::Tensor& output, const at::Tensor& input,
                         const c10d::ReduceOp& op, ncclComm_t comm, cudaStream_t stream) {
  const auto type = input.scalar_type();
  check(ncclReduceScatter(input.data_ptr(), output.data_ptr(), count_of(output), data_type(type),
                          Operator(op, type, comm), comm, stream),
        "ncclReduceScatter");
}

void reduce_call(const at::Tensor& output, const at::Tensor& input, const c10d::ReduceOp& op,
                 int root, ncclComm_t comm, cudaStream_t stream) {
  const auto type = input.scalar_type();
  check(ncclReduce(input.data_ptr(), output.data_ptr(), count_of(input), data_type(type),
                   Operator(op, type, comm), root, comm, stream),
        "ncclReduce");
}

void broadcast_call(const at::Tensor& output, const at::Tensor& input, int root, ncclComm_t comm,
                    cudaStream_t stream) {
  check(ncclBroadcast(input.data_ptr(), output.data_ptr(), count_of(input),
                      data_type(input.scalar_type()), root, comm, stream),
        "ncclBroadcast");
}

// Complex numbers are pairs, where the operator allows it.
bool takes_pairs(const c10d::ReduceOp& op) {
  return op == c10d::ReduceOp::SUM || op == c10d::ReduceOp::AVG || op == c10d::ReduceOp::PREMUL_SUM;
}

at::Tensor as_real(const at::Tensor& tensor) {
  return tensor.is_complex() ? at::view_as_real(tensor) : tensor;
}

at::Tensor as_real(const at::Tensor& tensor, const c10d::ReduceOp& op) {
  TORCH_CHECK(!tensor.is_complex() || takes_pairs(op),
              "no reduction of complex tensors with this operator");
  return as_real(tensor);
}

// All that can be refused is refused here: of calls that go out together none has been made yet.
void check_gathering(const at::Tensor& output, const at::Tensor& input, int size) {
  check_tensor(input);
  check_tensor(output);
  TORCH_CHECK_WITH(TypeError, input.scalar_type() == output.scalar_type(),
                   "output tensor must have the same type as input tensor");
  TORCH_CHECK_WITH(ValueError, input.numel() * size == output.numel(),
                   "output tensor size must be equal to world_size times input tensor size");
  data_type(input.scalar_type());
}

// Likewise.
void check_scattering(const at::Tensor& output, const at::Tensor& input, const c10d::ReduceOp& op,
                      int size) {
  check_tensor(input);
  check_tensor(output);
  TORCH_CHECK_WITH(TypeError, input.scalar_type() == output.scalar_type(),
                   "input tensor must be the same type as the output tensor.");
  TORCH_CHECK_WITH(ValueError, input.numel() == output.numel() * size,
                   "input tensor must be the same size as output size times world size");
  check_operator(op, input.scalar_type());
}

void check_pairs(const Tensors& outputs, const Tensors& inputs) {
  TORCH_CHECK_WITH(ValueError, inputs.size() == outputs.size() && !inputs.empty(),
                   "as many outputs as inputs, and at least one");
}

}  // namespace

c10::intrusive_ptr<c10d::Work> HostGroup::all_reduce(at::Tensor tensor, const c10d::ReduceOp& op,
                                                     const char* title, Milliseconds timeout) {
  const at::Tensor real = as_real(tensor, op);
  return run({OpType::ALLREDUCE,
              title,
              {tensor},
              {tensor},
              timeout_of(timeout),
              [=](auto comm, auto stream) { all_reduce_call(real, op, comm, stream); }});
}

c10::intrusive_ptr<c10d::Work> HostGroup::allreduce(Tensors& tensors,
                                                    const c10d::AllreduceOptions& options) {
  return all_reduce(single(tensors), options.reduceOp, "hostnccl:all_reduce", options.timeout);
}

c10::intrusive_ptr<c10d::Work> HostGroup::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  check_alike(tensors);
  return run({OpType::COALESCED, "hostnccl:allreduce_coalesced", tensors, tensors,
              timeout_of(options.timeout), [=, op = options.reduceOp](auto comm, auto stream) {
                grouped([&] {
                  for (const at::Tensor& one : tensors) {
                    all_reduce_call(as_real(one, op), op, comm, stream);
                  }
                });
              }});
}

c10::intrusive_ptr<c10d::Work> HostGroup::barrier(const c10d::BarrierOptions& options) {
  return all_reduce(at::zeros({1}, at::kFloat), c10d::ReduceOp::SUM, "hostnccl:barrier",
                    options.timeout);
}

c10::intrusive_ptr<c10d::Work> HostGroup::broadcast(Tensors& tensors,
                                                    const c10d::BroadcastOptions& options) {
  const at::Tensor tensor = as_real(single(tensors));
  const int root = static_cast<int>(options.rootRank + options.rootTensor);
  return run({OpType::BROADCAST, "hostnccl:broadcast", tensors, tensors,
              timeout_of(options.timeout), [=](auto comm, auto stream) {
                check(ncclBcast(tensor.data_ptr(), count_of(tensor),
                                data_type(tensor.scalar_type()), root, comm, stream),
                      "ncclBcast");
              }});
}

c10::intrusive_ptr<c10d::Work> HostGroup::reduce(Tensors& tensors,
                                                 const c10d::ReduceOptions& options) {
  const at::Tensor tensor = as_real(single(tensors), options.reduceOp);
  const int root = static_cast<int>(options.rootRank + options.rootTensor);
  return run({OpType::REDUCE, "hostnccl:reduce", tensors, tensors, timeout_of(options.timeout),
              [=, op = options.reduceOp](auto comm, auto stream) {
                reduce_call(tensor, tensor, op, root, comm, stream);
              }});
}

c10::intrusive_ptr<c10d::Work> HostGroup::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                          const c10d::AllgatherOptions& options) {
  check_gathering(output, input, getSize());
  return run({OpType::_ALLGATHER_BASE,
              "hostnccl:_all_gather_base",
              {input},
              {output},
              timeout_of(options.timeout),
              [output = output, input = input](auto comm, auto stream) {
                all_gather_call(output, input, comm, stream);
              }});
}

c10::intrusive_ptr<c10d::Work> HostGroup::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  check_pairs(outputs, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) check_gathering(outputs[i], inputs[i], getSize());
  return run({OpType::COALESCED, "hostnccl:all_gather_into_tensor_coalesced", inputs, outputs,
              timeout_of(options.timeout), [=](auto comm, auto stream) {
                grouped([&] {
                  for (size_t i = 0; i < inputs.size(); ++i) {
                    all_gather_call(outputs[i], inputs[i], comm, stream);
                  }
                });
              }});
}

c10::intrusive_ptr<c10d::Work> HostGroup::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  check_scattering(output, input, options.reduceOp, getSize());
  return run({OpType::_REDUCE_SCATTER_BASE,
              "hostnccl:_reduce_scatter_base",
              {input},
              {output},
              timeout_of(options.timeout),
              [output = output, input = input, op = options.reduceOp](auto comm, auto stream) {
                reduce_scatter_call(output, input, op, comm, stream);
              }});
}

c10::intrusive_ptr<c10d::Work> HostGroup::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  check_pairs(outputs, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_scattering(outputs[i], inputs[i], options.reduceOp, getSize());
  }
  return run({OpType::COALESCED, "hostnccl:reduce_scatter_tensor_coalesced", inputs, outputs,
              timeout_of(options.timeout), [=, op = options.reduceOp](auto comm, auto stream) {
                grouped([&] {
                  for (size_t i = 0; i < inputs.size(); ++i) {
                    reduce_scatter_call(outputs[i], inputs[i], op, comm, stream);
                  }
                });
              }});
}

// Parts of the same size go through one buffer; others are one broadcast each.
c10::intrusive_ptr<c10d::Work> HostGroup::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                    const c10d::AllgatherOptions& options) {
  const at::Tensor input = single(inputs);
  const Tensors parts = single(outputs);
  check_list(parts, input, getSize(), "all_gather");
  TORCH_CHECK_WITH(ValueError, parts[static_cast<size_t>(getRank())].numel() == input.numel(),
                   "all_gather: the input must have the size of this rank's output");
  const auto timeout = timeout_of(options.timeout);
  const at::Tensor sent = by_rows(input);
  const Copy before = copies({input}, {sent});
  if (same_sizes(parts)) {
    const at::Tensor flat = flat_like(parts);
    return run({OpType::ALLGATHER,
                "hostnccl:all_gather",
                {sent},
                parts,
                timeout,
                [=](auto comm, auto stream) { all_gather_call(flat, sent, comm, stream); },
                before,
                [=] { unflatten(flat, parts); }});
  }
  const Tensors received = by_rows(parts);
  return run({OpType::ALLGATHER,
              "hostnccl:all_gather",
              {sent},
              parts,
              timeout,
              [=, rank = getRank()](auto comm, auto stream) {
                grouped([&] {
                  for (int root = 0; root < static_cast<int>(received.size()); ++root) {
                    const at::Tensor& part = received[static_cast<size_t>(root)];
                    broadcast_call(part, root == rank ? sent : part, root, comm, stream);
                  }
                });
              },
              before,
              copies(received, parts)});
}

// Likewise; others are one reduction each, whose input is also where nobody looks for a result.
c10::intrusive_ptr<c10d::Work> HostGroup::reduce_scatter(
    Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ReduceScatterOptions& options) {
  const at::Tensor output = single(outputs);
  const Tensors parts = single(inputs);
  check_list(parts, output, getSize(), "reduce_scatter");
  TORCH_CHECK_WITH(ValueError, parts[static_cast<size_t>(getRank())].numel() == output.numel(),
                   "reduce_scatter: the output must have the size of this rank's input");
  const auto timeout = timeout_of(options.timeout);
  const auto op = options.reduceOp;
  const at::Tensor received = by_rows(output);
  const Copy after = copies({received}, {output});
  if (same_sizes(parts)) {
    const at::Tensor flat = flat_like(parts);
    return run(
        {OpType::REDUCE_SCATTER,
         "hostnccl:reduce_scatter",
         {flat},
         outputs,
         timeout,
         [=](auto comm, auto stream) { reduce_scatter_call(received, flat, op, comm, stream); },
         [=] { flatten(parts, flat); },
         after});
  }
  const Tensors sent = by_rows(parts);
  return run({OpType::REDUCE_SCATTER, "hostnccl:reduce_scatter", sent, outputs, timeout,
              [=, rank = getRank()](auto comm, auto stream) {
                grouped([&] {
                  for (int root = 0; root < static_cast<int>(sent.size()); ++root) {
                    const at::Tensor& part = sent[static_cast<size_t>(root)];
                    reduce_call(root == rank ? received : part, part, op, root, comm, stream);
                  }
                });
              },
              copies(parts, sent), after});
}

}  // namespace torch_hostnccl

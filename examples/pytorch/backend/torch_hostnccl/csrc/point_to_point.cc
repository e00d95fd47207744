// The collectives of torch that are messages between pairs of ranks, and such messages.
#include <torch/csrc/distributed/c10d/Utils.hpp>

#include "call_group.h"
#include "process_group.h"
#include "tensors.h"
#include "types.h"

namespace torch_hostnccl {
namespace {

using c10d::OpType;

void send_call(const char* from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
               cudaStream_t stream) {
  check(ncclSend(from, count, type, peer, comm, stream), "ncclSend");
}

void receive_call(char* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                  cudaStream_t stream) {
  check(ncclRecv(to, count, type, peer, comm, stream), "ncclRecv");
}

void send_call(const at::Tensor& tensor, ncclDataType_t type, int peer, ncclComm_t comm,
               cudaStream_t stream) {
  send_call(static_cast<const char*>(tensor.data_ptr()), static_cast<size_t>(tensor.numel()), type,
            peer, comm, stream);
}

void receive_call(const at::Tensor& tensor, ncclDataType_t type, int peer, ncclComm_t comm,
                  cudaStream_t stream) {
  receive_call(static_cast<char*>(tensor.data_ptr()), static_cast<size_t>(tensor.numel()), type,
               peer, comm, stream);
}

// Of the collectives that are made of messages.
ncclDataType_t part_type(at::ScalarType type) {
  return c10::isFloat8Type(type) ? ncclUint8 : data_type(type);
}
ncclDataType_t part_type(const at::Tensor& tensor) { return part_type(tensor.scalar_type()); }

// Where each rank's part of a tensor lies, in elements.
struct Parts {
  std::vector<size_t> counts, offsets;

  Parts(const std::vector<int64_t>& splits, const at::Tensor& tensor, int size)
      : counts(static_cast<size_t>(size)), offsets(counts) {
    c10d::computeLengthsAndOffsets(splits, tensor, &counts, &offsets);
  }
};

void exchange(const at::Tensor& output, const Parts& receives, const at::Tensor& input,
              const Parts& sends, ncclComm_t comm, cudaStream_t stream) {
  const ncclDataType_t type = part_type(input);
  const size_t element = input.element_size();
  grouped([&] {
    for (size_t i = 0; i < sends.counts.size(); ++i) {
      const int peer = static_cast<int>(i);
      send_call(static_cast<const char*>(input.data_ptr()) + sends.offsets[i] * element,
                sends.counts[i], type, peer, comm, stream);
      receive_call(static_cast<char*>(output.data_ptr()) + receives.offsets[i] * element,
                   receives.counts[i], type, peer, comm, stream);
    }
  });
}

// Into equal splits: they are of the first dimension.
void check_divides(const at::Tensor& tensor, int ranks) {
  TORCH_CHECK_WITH(ValueError, tensor.dim() > 0 && tensor.size(0) % ranks == 0,
                   "all_to_all: the first dimension's size must be a multiple of the number of "
                   "ranks");
}

// Of gather and scatter: what the root has one of for each rank, like what each has.
void check_rooted(int rank, int64_t root, int size, std::vector<Tensors>& lists,
                  const at::Tensor& own, const char* call) {
  const auto refuse = [call](const std::string& text) {
    C10_THROW_ERROR(ValueError, c10::str(call, ": ", text));
  };
  c10d::assertRootRank(refuse, root, size);
  if (rank != root) {
    if (!lists.empty()) refuse("requires an empty list on non-root");
    return;
  }
  if (lists.size() != 1) refuse("requires a single list on the root");
  check_list(lists[0], own, size, call);
  c10d::assertTypeAndSizesMatch(refuse, lists[0], own.options(), own.sizes());
}

}  // namespace

c10::intrusive_ptr<c10d::Work> HostGroup::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                        std::vector<int64_t>& output_splits,
                                                        std::vector<int64_t>& input_splits,
                                                        const c10d::AllToAllOptions& options) {
  check_tensor(output);
  check_tensor(input);
  TORCH_CHECK_WITH(TypeError, input.scalar_type() == output.scalar_type(),
                   "Tensors must have identical type");
  const auto timeout = timeout_of(options.timeout);
  if (output_splits.empty() && input_splits.empty()) {
    TORCH_CHECK_WITH(ValueError, input.numel() == output.numel(),
                     "all_to_all: input and output must be of the same size");
    check_divides(input, getSize());
    check_divides(output, getSize());
    const size_t count = static_cast<size_t>(input.numel() / getSize());
    return run(
        {OpType::ALLTOALL_BASE,
         "hostnccl:all_to_all",
         {input},
         {output},
         timeout,
         [=, from = input, to = output](auto comm, auto stream) {
           check(ncclAlltoAll(from.data_ptr(), to.data_ptr(), count, part_type(from), comm, stream),
                 "ncclAlltoAll");
         }});
  }
  c10d::checkSplitSizes(input_splits, input, getSize());
  c10d::checkSplitSizes(output_splits, output, getSize());
  const Parts sends(input_splits, input, getSize()), receives(output_splits, output, getSize());
  return run({OpType::ALLTOALL_BASE,
              "hostnccl:all_to_all",
              {input},
              {output},
              timeout,
              [=, from = input, to = output](auto comm, auto stream) {
                exchange(to, receives, from, sends, comm, stream);
              }});
}

c10::intrusive_ptr<c10d::Work> HostGroup::alltoall(Tensors& outputs, Tensors& inputs,
                                                   const c10d::AllToAllOptions& options) {
  check_alike(inputs);
  check_list(outputs, inputs[0], getSize(), "all_to_all");
  check_list(inputs, outputs[0], getSize(), "all_to_all");
  const Tensors sent = by_rows(inputs), received = by_rows(outputs);
  return run({OpType::ALLTOALL, "hostnccl:all_to_all", sent, outputs, timeout_of(options.timeout),
              [=](auto comm, auto stream) {
                grouped([&] {
                  for (size_t i = 0; i < sent.size(); ++i) {
                    const int peer = static_cast<int>(i);
                    send_call(sent[i], part_type(sent[i]), peer, comm, stream);
                    receive_call(received[i], part_type(received[i]), peer, comm, stream);
                  }
                });
              },
              copies(inputs, sent), copies(received, outputs)});
}

// The root's own part is copied.
c10::intrusive_ptr<c10d::Work> HostGroup::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                 const c10d::GatherOptions& options) {
  const at::Tensor own = single(inputs);
  const int rank = getRank(), root = static_cast<int>(options.rootRank);
  const ncclDataType_t type = part_type(own);
  check_rooted(rank, options.rootRank, getSize(), outputs, own, "gather");
  const Tensors parts = rank == root ? outputs[0] : Tensors();
  const at::Tensor sent = rank == root ? own : by_rows(own);
  Tensors received = by_rows(parts);
  if (rank == root) received[static_cast<size_t>(root)] = own;
  const auto calls = [=](ncclComm_t comm, cudaStream_t stream) {
    grouped([&] {
      if (rank != root) send_call(sent, type, root, comm, stream);
      for (int peer = 0; peer < static_cast<int>(received.size()); ++peer) {
        if (peer == root) continue;
        receive_call(received[static_cast<size_t>(peer)], type, peer, comm, stream);
      }
    });
  };
  return run({OpType::GATHER,
              "hostnccl:gather",
              {sent},
              parts,
              timeout_of(options.timeout),
              calls,
              copies({own}, {sent}),
              copies(received, parts)});
}

c10::intrusive_ptr<c10d::Work> HostGroup::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                  const c10d::ScatterOptions& options) {
  const at::Tensor own = single(outputs);
  const int rank = getRank(), root = static_cast<int>(options.rootRank);
  const ncclDataType_t type = part_type(own);
  check_rooted(rank, options.rootRank, getSize(), inputs, own, "scatter");
  const Tensors parts = rank == root ? inputs[0] : Tensors();
  const Tensors sent = by_rows(parts);
  const at::Tensor received = rank == root ? parts[static_cast<size_t>(root)] : by_rows(own);
  const auto calls = [=](ncclComm_t comm, cudaStream_t stream) {
    grouped([&] {
      if (rank != root) receive_call(received, type, root, comm, stream);
      for (int peer = 0; peer < static_cast<int>(sent.size()); ++peer) {
        if (peer != root) send_call(sent[static_cast<size_t>(peer)], type, peer, comm, stream);
      }
    });
  };
  return run({OpType::SCATTER, "hostnccl:scatter", sent, outputs, timeout_of(options.timeout),
              calls, copies(parts, sent), copies({received}, {own})});
}

// Outside of a batch two ranks have a communicator of their own, as the others need not call.
c10::intrusive_ptr<c10d::Work> HostGroup::pass(at::Tensor& tensor, int peer, bool sends) {
  TORCH_CHECK_WITH(ValueError, peer >= 0 && peer < getSize(), "there is no rank ", peer);
  const bool batched = coalescing_.depth > 0;
  const int to = batched ? peer : peer == getRank() ? 0 : peer < getRank() ? 0 : 1;
  Job job{sends ? OpType::SEND : OpType::RECV,
          sends ? "hostnccl:send" : "hostnccl:recv",
          {},
          {tensor},
          timeout_,
          [=, tensor = tensor](auto comm, auto stream) {
            const ncclDataType_t type = data_type(tensor.scalar_type());
            grouped([&] {
              if (sends) {
                send_call(tensor, type, to, comm, stream);
              } else {
                receive_call(tensor, type, to, comm, stream);
              }
            });
          }};
  return batched ? add(std::move(job)) : run(std::move(job), communicator(peer));
}

c10::intrusive_ptr<c10d::Work> HostGroup::send(Tensors& tensors, int peer, int) {
  return pass(single(tensors), peer, true);
}

c10::intrusive_ptr<c10d::Work> HostGroup::recv(Tensors& tensors, int peer, int) {
  return pass(single(tensors), peer, false);
}

c10::intrusive_ptr<c10d::Work> HostGroup::recvAnysource(Tensors&, int) {
  C10_THROW_ERROR(NotImplementedError, "hostnccl does not support recvAnysource, as NCCL does not");
}

}  // namespace torch_hostnccl

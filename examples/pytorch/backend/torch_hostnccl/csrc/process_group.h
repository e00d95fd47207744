// The backend: torch's collectives as calls of NCCL, those that ProcessGroupNCCL makes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "communicator.h"
#include "meeting.h"
#include "work.h"

namespace torch_hostnccl {

class HostGroup final : public c10d::Backend {
 public:
  HostGroup(c10::intrusive_ptr<c10d::Store> store, int rank, int size, Milliseconds timeout);
  ~HostGroup() override;

  const std::string getBackendName() const override { return "hostnccl"; }
  void startCoalescing() override;
  c10::intrusive_ptr<c10d::Work> endCoalescing() override;
  void setSequenceNumberForGroup() override {}  // each rank counts alike
  uint64_t getSequenceNumberForGroup() override { return collectives_; }

  // In torch's older releases these are no virtual functions, hence no `override`.
  bool supportsCoalescing() const { return true; }
  bool supportsSplitting() const { return true; }
  c10::intrusive_ptr<Options> getBackendOptions();
  void setTimeout(Milliseconds timeout) { timeout_ = at_most_ten_years(timeout); }
  void abort();
  void shutdown();
  // The group's ncclComm_t, as ProcessGroupNCCL tells it; 0 before the group's first collective
  // call.
  int64_t comm_pointer();
  // A new group of these ranks, which are numbers in this one, by a split; null on all others. All
  // ranks of this one call it together, and with disjoint lists.
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                          const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<Options>& options);
  c10::intrusive_ptr<c10d::Backend> split(const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<Options>& options);

  c10::intrusive_ptr<c10d::Work> allreduce(Tensors& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce_coalesced(
      Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  c10::intrusive_ptr<c10d::Work> broadcast(Tensors& tensors,
                                           const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce(Tensors& tensors,
                                        const c10d::ReduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                           const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather_into_tensor_coalesced(
      Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce_scatter(std::vector<at::Tensor>& outputs,
                                                std::vector<Tensors>& inputs,
                                                const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(
      at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce_scatter_tensor_coalesced(
      Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& output, at::Tensor& input,
                                               std::vector<int64_t>& output_splits,
                                               std::vector<int64_t>& input_splits,
                                               const c10d::AllToAllOptions& options) override;
  c10::intrusive_ptr<c10d::Work> alltoall(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllToAllOptions& options) override;
  c10::intrusive_ptr<c10d::Work> gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                        const c10d::GatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                         const c10d::ScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> send(Tensors& tensors, int peer, int tag) override;
  c10::intrusive_ptr<c10d::Work> recv(Tensors& tensors, int peer, int tag) override;
  c10::intrusive_ptr<c10d::Work> recvAnysource(Tensors& tensors, int tag) override;
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override;

 private:
  using CommunicatorPtr = std::shared_ptr<Communicator>;
  // Makes the calls; the stream's are those of the communicator.
  using Calls = std::function<void(ncclComm_t, cudaStream_t)>;
  using Copy = std::function<void()>;
  struct Job {
    c10d::OpType type;
    const char* title;  // for torch's profiler
    Tensors inputs;     // with the outputs, all memory that the calls use: held until they are done
    Tensors outputs;
    Milliseconds timeout;
    Calls calls;
    Copy before = {};  // run on the stream, around the calls
    Copy after = {};
  };
  // What was called between startCoalescing and endCoalescing.
  struct Coalescing {
    int depth = 0;
    bool only_messages = true;
    CommunicatorPtr communicator;
    Tensors inputs, outputs;
    std::vector<Copy> after;
    Milliseconds timeout{0};
  };

  c10::intrusive_ptr<c10d::Work> run(Job job);
  c10::intrusive_ptr<c10d::Work> run(Job job, const CommunicatorPtr& communicator);
  c10::intrusive_ptr<c10d::Work> add(Job job);
  void give_up_coalescing();
  c10::intrusive_ptr<c10d::Work> all_reduce(at::Tensor tensor, const c10d::ReduceOp& op,
                                            const char* title, Milliseconds timeout);
  c10::intrusive_ptr<c10d::Work> pass(at::Tensor& tensor, int peer, bool sends);

  CommunicatorPtr communicator();           // the group's
  CommunicatorPtr communicator(int other);  // of this rank and another one alone
  // That of a key; the first time the ranks meet, for which this may wait.
  CommunicatorPtr communicator(const std::string& key, int rank, int size);
  CommunicatorPtr find(const std::string& key);  // null: there is none yet
  void require_alive();
  // Aborts it, if the group is over by now.
  CommunicatorPtr keep(const std::string& key, CommunicatorPtr made);
  std::string name() const;
  std::string name_of_part(const c10::intrusive_ptr<Options>& options) const;
  Milliseconds timeout_of(Milliseconds given) const;
  uint64_t next_number(bool message);

  const c10::intrusive_ptr<c10d::Store> store_;
  Milliseconds timeout_;
  std::string name_;  // of a part of another group; else empty
  // Apart, for messages are the calls of two ranks: collectives must have the same number on all.
  uint64_t collectives_ = 0, messages_ = 0;
  uint64_t splits_ = 0;  // without a store of their own: each has keys apart
  Turns turns_;          // of those that meet; never waited for with mutex_
  std::mutex mutex_;     // of the two below
  std::map<std::string, CommunicatorPtr> communicators_;
  std::string over_;  // why no communicator lives any more; empty: they do
  Coalescing coalescing_;
};

}  // namespace torch_hostnccl

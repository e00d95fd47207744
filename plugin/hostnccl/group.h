// Groups: what a thread calls between ncclGroupStart and ncclGroupEnd is kept and launched at the
// outermost end. A call outside a group is a group of its own.
#ifndef HOSTNCCL_GROUP_H_
#define HOSTNCCL_GROUP_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "comm.h"
#include "stream.h"

namespace hostnccl {

// A communicator to be made: started at the end of the group, handed out through `out`.
struct PendingInit {
  std::function<CommPtr()> start;
  ncclComm_t* out = nullptr;
  bool blocking = true;
  CommPtr parent;  // of a split or shrink; null: `out` is set before the initialisation ends
};

class Group {
 public:
  static Group& Current();  // of the calling thread

  void Start() { ++depth_; }
  ncclResult_t End();                 // launches at depth 0; throws the first failure of the group
  void Discard();                     // ends the group without a launch
  void Note(const Failure& failure);  // a call of this thread failed

  // `stream` null: done on return of the outermost end.
  ncclResult_t Add(CommPtr comm, Op op, std::shared_ptr<Stream> stream);
  ncclResult_t Add(PendingInit init);

 private:
  struct PendingOp {
    Op op;
    std::shared_ptr<Stream> stream;
  };
  struct Part {
    CommPtr comm;
    std::vector<PendingOp> ops;
  };
  struct Content {
    Outcome failure;
    std::vector<Part> parts;  // in order of first appearance
    std::vector<PendingInit> inits;
  };

  void LeaveToParent();
  static ncclResult_t Initialize(std::vector<PendingInit>& inits);
  static ncclResult_t Launch(std::vector<Part>& parts);

  int depth_ = 0;
  Content content_;
};

}  // namespace hostnccl

#endif  // HOSTNCCL_GROUP_H_
